"""Rules that drop contenders, each on results small enough to judge by hand, or beside a rule of Ray's."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ray.tune.schedulers.async_hyperband import _Bracket

from sweep_service.report.statistics.critical_values import lower_critical
from sweep_service.report.statistics.differences import Arm, Pairs
from sweep_service.stopping import asha, median, paired, rungs
from sweep_service.stopping.standing import Run, Standing
from sweep_service.sweep.records import Judgement

LEVEL = 0.05


def standing(
    results: dict[str, Sequence[float | None]], num_seeds: int = 8, top_k: int = 1, judged: Sequence[Judgement] = ()
) -> Standing:
    """Return contenders whose first runs are over, with these results; None for a run that failed."""
    runs = {id_: {seed: Run((), (), True, value) for seed, value in enumerate(own)} for id_, own in results.items()}
    return Standing(runs, range(num_seeds), 480, 3, top_k, judged)


def said(config_id: str, seeds: int, **more: bool) -> Judgement:
    """Return the judgement of a contender after so many seeds; without `dropped` it went on."""
    usual = {"dropped": False, "seed": None, "mark": seeds, "value": 0.0, "bound": -0.1}
    return Judgement.model_validate({"config_id": config_id} | usual | more)


def dropped(judgements: Sequence[Judgement]) -> set[str]:
    return {judgement.config_id for judgement in judgements if judgement.dropped}


def curves(values: dict[str, Sequence[float]], total: int = 16, top_k: int = 1) -> Standing:
    """Return contenders with a run of seed 0 each, which goes on after these evaluations, ten steps apart."""
    runs = {id_: {0: Run(range(10, 10 * len(own) + 1, 10), own)} for id_, own in values.items()}
    return Standing(runs, [0, 1], 10 * total, 1, top_k)


def test_paired_waits_for_three_seeds_of_all_that_are_left() -> None:
    two = {"a": [0.9, 0.91], "b": [0.1, 0.1], "c": [0.1, 0.12]}
    assert paired.judge(standing(two), LEVEL) == []
    three = {"a": [0.9, 0.91, 0.9], "b": [0.1, 0.1, 0.1], "c": [0.1, 0.12]}
    assert paired.judge(standing(three), LEVEL) == []
    runs_on = standing(three | {"c": [0.1, 0.12, 0.11]})
    unfinished = replace(runs_on, runs=runs_on.runs | {"b": runs_on.runs["b"] | {2: Run()}})
    assert paired.judge(unfinished, LEVEL) == []
    assert dropped(paired.judge(runs_on, LEVEL)) == {"b", "c"}


def test_paired_needs_no_run_of_what_it_has_dropped() -> None:
    gone = said("c", 3, dropped=True)
    four = {"a": [0.9, 0.91, 0.9, 0.92], "b": [0.1, 0.1, 0.1, 0.1], "c": [0.1, 0.12, 0.11]}
    found = paired.judge(standing(four, judged=[gone]), LEVEL)
    assert [(one.config_id, one.mark, one.dropped) for one in found] == [("a", 4, False), ("b", 4, True)]


def test_paired_holds_a_difference_against_dunnetts_bound_at_the_level_over_the_looks() -> None:
    results = {"a": [0.61, 0.60, 0.65], "b": [0.55, 0.57, 0.56], "c": [0.50, 0.52, 0.55]}
    found = {one.config_id: one for one in paired.judge(standing(results), LEVEL)}
    pairs = Pairs([Arm(id_, dict(enumerate(values))) for id_, values in results.items()])
    difference = pairs.difference("a", "c")
    critical = lower_critical(2, difference.df or 0, confidence=1 - 2 * LEVEL / 5)  # looks after 3, 4, 5, 6 and 7 seeds
    assert found["c"].rival == "a"
    assert found["c"].value == pytest.approx(-difference.difference)
    assert found["c"].bound == pytest.approx(-critical * (difference.seed_error or 0))


def test_paired_counts_contenders_of_before_in_its_bound() -> None:
    results = {"a": [0.61, 0.60, 0.65, 0.63], "b": [0.55, 0.57, 0.56, 0.52]}
    alone = {one.config_id: one for one in paired.judge(standing(results, judged=[said("a", 3)]), LEVEL)}
    gone = [said("a", 3), said("c", 3, dropped=True)]
    with_c = standing(results | {"c": [0.1, 0.1, 0.1]}, judged=gone)
    assert {one.config_id: one for one in paired.judge(with_c, LEVEL)}["b"].bound < alone["b"].bound


def test_paired_leaves_as_many_as_are_confirmed_and_the_best_of_those_proved_worse() -> None:
    results = {"a": [0.9, 0.91, 0.9], "b": [0.1, 0.1, 0.11], "c": [0.2, 0.22, 0.2], "d": [0.1, 0.12, 0.1]}
    assert dropped(paired.judge(standing(results, top_k=2), LEVEL)) == {"b", "d"}


def test_what_somebody_has_taken_back_is_never_dropped_again() -> None:
    results = {"a": [0.9, 0.91, 0.9, 0.92], "b": [0.1, 0.1, 0.11, 0.1], "c": [0.1, 0.12, 0.1, 0.1]}
    back = standing(results, judged=[said("b", 3, dropped=True, taken_back=True)])
    assert back.left == ["a", "b", "c"]
    found = {one.config_id: one for one in paired.judge(back, LEVEL)}
    assert dropped([*found.values()]) == {"c"}
    assert found["b"].value < found["b"].bound, "it is said all the same"


def test_paired_lends_no_spread_from_or_to_a_config_with_a_ruined_run() -> None:
    results = {"a": [0.61, 0.60, 0.62], "b": [0.60, 0.05, 0.61], "c": [0.59, 0.60, 0.60], "d": [0.5, 0.51, 0.52]}
    calm = standing(results)
    runs = calm.runs | {"b": calm.runs["b"] | {1: replace(calm.runs["b"][1], ruined=True)}}
    ruined = {one.config_id: one for one in paired.judge(replace(calm, runs=runs), LEVEL)}
    assert dropped(ruined.values()) == {"d"}, "what a ruined run varies by says nothing of the others"
    assert not ruined["b"].dropped


@pytest.mark.parametrize(("seeds", "expected"), [(1, []), (3, []), (4, [3]), (8, [3, 4, 5, 6, 7])])
def test_paired_never_looks_where_nothing_is_left_to_save(seeds: int, expected: list[int]) -> None:
    assert [*paired.looks(seeds)] == expected


@pytest.mark.parametrize(
    ("contenders", "seeds", "top_k", "expected"),
    [
        (12, 8, 2, [(2, 5), (4, 2)]),
        (12, 4, 2, [(1, 5), (2, 2)]),
        (12, 3, 2, [(1, 2)]),
        (12, 2, 1, [(1, 1)]),
        (12, 1, 1, []),
        (2, 8, 2, []),
        (4, 8, 2, [(2, 2), (4, 2)]),
    ],
)
def test_rungs_are_after_a_quarter_and_half_of_the_seeds(
    contenders: int, seeds: int, top_k: int, expected: list[tuple[int, int]]
) -> None:
    assert [tuple(rung) for rung in rungs.rungs(contenders, seeds, top_k)] == expected


@given(contenders=st.integers(1, 100), seeds=st.integers(1, 40), top_k=st.integers(1, 10))
def test_rungs_stay_below_their_share_wherever_a_smaller_one_is_possible(
    contenders: int, seeds: int, top_k: int
) -> None:
    plan = rungs.rungs(contenders, seeds, top_k)
    trained = rungs.runs_trained(contenders, seeds, top_k)
    assert trained <= contenders * seeds
    assert [rung.keep for rung in plan] == sorted((rung.keep for rung in plan), reverse=True)
    assert not plan or plan[-1].keep == top_k
    if plan and plan[0].keep > top_k:
        assert trained <= rungs.SHARE * contenders * seeds


def test_rungs_keep_the_best_over_the_seeds_that_all_have() -> None:
    results = {"a": [0.5, 0.9], "b": [0.8, 0.8], "c": [0.7, 0.85], "d": [0.9, 0.1]}
    found = rungs.judge(standing(results, num_seeds=8, top_k=1))
    assert {one.mark for one in found} == {2}
    plan = rungs.rungs(4, 8, 1)
    assert len(results) - len(dropped(found)) == plan[0].keep == 1
    assert dropped(found) == {"a", "c", "d"}


def test_rungs_do_not_punish_a_run_that_failed_on_a_hard_seed_nor_reward_it() -> None:
    results = {"a": [0.9, None], "b": [0.85, 0.2], "c": [None, 0.21], "d": [None, None]}  # the second seed is hard
    values = {one.config_id: one.value for one in rungs.judge(standing(results, num_seeds=8, top_k=1))}
    assert values["a"] == pytest.approx(0.025)
    assert values["c"] == pytest.approx(0.005)
    assert values["b"] == pytest.approx((-0.025 - 0.005) / 2)
    assert values["d"] is None


def test_rungs_drop_a_contender_without_a_result_first() -> None:
    results = {"a": [None, None], "b": [0.1, 0.1], "c": [0.2, 0.2]}
    assert dropped(rungs.judge(standing(results, num_seeds=8, top_k=2))) == {"a"}


def test_the_best_so_far_go_on_even_if_others_cannot_be_proved_worse() -> None:
    """`c` has too few pairs for a bound, and is no better for that."""
    results = {"a": [0.9, 0.91, 0.9], "b": [0.7, 0.7, 0.71], "c": [0.1, None, 0.1]}
    assert dropped(paired.judge(standing(results, top_k=2), LEVEL)) == set()
    assert dropped(paired.judge(standing(results, top_k=1), LEVEL)) == {"b"}


def test_what_can_have_no_result_is_not_among_those_that_are_left() -> None:
    results = {"a": [0.9, 0.9], "b": [0.8, 0.8], "c": [0.7, 0.7], "x": [None, None], "y": [None, None]}
    assert dropped(rungs.judge(standing(results, num_seeds=8, top_k=2))) == {"c", "x", "y"}
    early = standing({"x": [None], "y": [None]}, num_seeds=2, top_k=2)
    runs = {id_: {0: Run(range(10, 50, 10), [value] * 4)} for id_, value in (("a", 0.9), ("b", 0.1), ("c", 0.5))}
    found = asha.judge(replace(early, runs=early.runs | runs, total_steps=160), 0.25, 3)
    assert dropped(found) == {"b"}


def test_contenders_that_are_equal_but_for_rounding_go_on_together() -> None:
    results = {str(place): [0.1 * 3, 0.3] if place % 2 else [0.3, 0.1 * 3] for place in range(6)}
    assert dropped(rungs.judge(standing(results, num_seeds=8, top_k=1))) == set()


def test_a_contender_is_dropped_once_by_its_worst_run() -> None:
    three = {seed: Run(range(10, 50, 10), [value] * 4) for seed, value in enumerate((0.3, 0.1, 0.2))}
    best = {seed: Run(range(10, 50, 10), [0.9] * 4) for seed in range(3)}
    seen = Standing({"a": best, "b": three, "c": best}, range(3), 160, 1, 1)
    found = [one for one in asha.judge(seen, 0.25, 3) if one.dropped]
    assert [(one.config_id, one.seed) for one in found] == [("b", 1)]


def test_a_run_is_judged_by_evaluations_up_to_the_first_after_the_rung() -> None:
    run = Run([0, 160, 320], [0.1, 0.9, 0.5])
    assert [run.value_at(step, 1) for step in (120, 160, 161, 321)] == [0.9, 0.9, 0.5, None]
    assert run.value_at(161, 2) == pytest.approx(0.7)


@given(st.permutations(range(8)))
def test_rungs_and_paired_never_depend_on_what_has_arrived_beside_their_rows(order: list[int]) -> None:
    rng = np.random.default_rng(0)
    results = {str(place): [*rng.normal(0.6 + 0.02 * place, 0.02, 8)] for place in range(8)}
    more = {id_: values[: 4 + order[place] % 4] for place, (id_, values) in enumerate(results.items())}
    four = {id_: values[:4] for id_, values in results.items()}
    assert paired.judge(standing(more), LEVEL) == paired.judge(standing(four), LEVEL)
    assert rungs.judge(standing(more)) == rungs.judge(standing(four))


def test_ashas_rungs_begin_at_the_grace_and_end_before_the_end() -> None:
    assert asha.rung_steps(480, 0.25, 3) == [120, 360]
    assert asha.rung_steps(480, 0.25, 2) == [120, 240]
    assert asha.rung_steps(2, 0.25, 3) == [1]


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=8, unique=True), st.integers(2, 4))
def test_asha_stops_what_rays_bracket_stops(thousandths: list[int], reduction: int) -> None:
    values = [number / 1000 for number in thousandths]
    bracket, runs, judged = _Bracket(4, 16, reduction, 0), dict[str, Sequence[float]](), list[Judgement]()
    for place, value in enumerate(values):
        runs[str(place)] = [0.0, 0.0, 0.0, value]
        trial = type("Trial", (), {"trial_id": str(place)})()
        action = bracket.on_result(trial, 4, value)
        (new,) = asha.judge(replace(curves(runs, top_k=0), judged=judged), 0.25, reduction)
        judged.append(new)
        assert (new.config_id, new.mark, new.seed) == (str(place), 40, 0)
        assert new.dropped == (action == "STOP")


def test_asha_never_judges_a_run_twice_at_a_rung() -> None:
    early = curves({"a": [0.1] * 4})
    (first,) = asha.judge(early, 0.25, 3)
    assert not first.dropped
    later = curves({"a": [0.1] * 5, "b": [0.9] * 4})
    (second,) = asha.judge(replace(later, judged=[first]), 0.25, 3)
    assert (second.config_id, second.dropped) == ("b", False)


def test_median_stops_a_run_whose_best_is_below_the_others_means() -> None:
    others = {"a": [0.2, 0.4, 0.6, 0.8], "b": [0.4, 0.4, 0.4, 0.4], "c": [0.6, 0.6, 0.6, 0.6]}
    found = median.judge(curves(others | {"d": [0.1, 0.45, 0.3, 0.2]}), 0.25, 3)
    of_d = next(one for one in found if one.config_id == "d")
    assert (of_d.value, of_d.bound, of_d.dropped) == (0.45, pytest.approx(0.5), True)


def test_median_waits_for_its_grace_and_for_enough_others() -> None:
    runs = {"a": [0.5] * 4, "b": [0.5] * 4, "c": [0.5] * 4, "d": [0.1] * 3}
    assert [one.config_id for one in median.judge(curves(runs), 0.25, 2)] == ["a", "b", "c"]
    assert median.judge(curves(runs), 0.25, 3) == []


@pytest.mark.parametrize(
    "judge",
    [partial(asha.judge, grace=0.25, reduction=3), partial(median.judge, grace=0.25, min_runs=1)],
    ids=["asha", "median"],
)
def test_rules_by_arrival_leave_as_many_as_are_confirmed(judge: Callable[[Standing], list[Judgement]]) -> None:
    runs = {"a": [0.9] * 4, "b": [0.1] * 4, "c": [0.2] * 4}
    assert len(dropped(judge(curves(runs, top_k=2)))) == 1
    assert dropped(judge(curves(runs, top_k=3))) == set()
