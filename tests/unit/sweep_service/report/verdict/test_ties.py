import math
from collections.abc import Sequence

import numpy as np
import pytest

from sweep_service.report.model import ConfigRow, SeedValue, StageResult, TieSet, TrialRow
from sweep_service.report.statistics.critical_values import CONFIDENCE
from sweep_service.report.statistics.differences import Arm, Pairs, Problem
from sweep_service.report.statistics.ruin_rates import rate_bound
from sweep_service.report.verdict.ruin import RuinsOf
from sweep_service.report.verdict.ties import tie_set
from sweep_service.sweep.records import Stage

NAN = math.nan


def arms_of(results: dict[str, list[float]], *, counted: bool = True) -> list[Arm]:
    known = {
        name: {seed: value for seed, value in enumerate(values) if not math.isnan(value)}
        for name, values in results.items()
    }
    rates = {
        name: {seed: {Problem("p", "p"): value, Problem("q", "q"): value} for seed, value in by_seed.items()}
        for name, by_seed in known.items()
    }
    return [Arm(name, by_seed, rates=rates[name] if counted else {}) for name, by_seed in known.items()]


def ties_of(
    results: dict[str, list[float]], runs: int = 1000, missing: Sequence[str] = (), *, counted: bool = True
) -> TieSet | None:
    """The set of configs each of whose seeds stands for so many sound runs, which leave as little ruin possible.

    `missing` names the configs of runs without a result."""
    rows, trials = rows_of(results)
    trials = trials * runs + [
        TrialRow.model_construct(id=f"{name} gone", config_id=name, stage=Stage.CONFIRM, objective=None, missing=True)
        for name in missing
    ]
    arms = arms_of(results, counted=counted)
    return tie_set(rows, arms, arms, RuinsOf(trials, arms, 0.0), CONFIDENCE)


def rows_of(results: dict[str, list[float]]) -> tuple[dict[str, ConfigRow], list[TrialRow]]:
    """The rows of configs with these results by seed, and of their trials."""
    rows: dict[str, ConfigRow] = {}
    for number, (name, values) in enumerate(results.items()):
        known = {seed: value for seed, value in enumerate(values) if not math.isnan(value)}
        seeds = [SeedValue(seed=seed, trial_id=f"{name}{seed}", value=value) for seed, value in known.items()]
        mean = float(np.mean(list(known.values())))
        stage = StageResult(n=len(known), planned=len(values), mean=mean, sd=None, low=None, high=None, seeds=seeds)
        rows[name] = ConfigRow.model_construct(id=name, number=number, label=name, confirm=stage)
    trials = [
        TrialRow.model_construct(
            id=seed.trial_id, config_id=name, stage=Stage.CONFIRM, objective=seed.value, ruined=False
        )
        for name, row in rows.items()
        for seed in row.confirm.seeds
    ]
    return rows, trials


def test_a_config_that_is_plainly_worse_leaves_the_set() -> None:
    found = ties_of({"a": [0.80, 0.83, 0.81], "b": [0.81, 0.82, 0.82], "low": [0.40, 0.41, 0.43]})
    assert {member.config_id: member.in_set for member in found.members} == {"a": True, "b": True, "low": False}
    assert found.text == "2 of 3 confirmed configs may be the best, over all runs and in sound ones: b, a."


def test_missing_runs_of_the_better_config_leave_the_other_in_the_set() -> None:
    results = {"a": [0.64, 0.66, 0.65, 0.62], "b": [0.61, 0.61, 0.61, 0.61]}
    for missing, stays in (((), False), (("a", "a"), True), (("b", "b"), False), (("a", "a", "b", "b"), False)):
        found = {one.config_id: one.in_sound_set for one in ties_of(results, missing=missing).members}
        assert found == {"a": True, "b": stays}


def test_where_problems_do_not_count_the_set_is_of_these_alone() -> None:
    results = {"a": [0.80, 0.83, 0.81], "b": [0.81, 0.82, 0.82]}
    counted, uncounted = ties_of(results), ties_of(results, counted=False)
    assert uncounted.text == f"{counted.text} All of this is about these problems alone."


def test_one_clear_best_stands_alone() -> None:
    found = ties_of({"a": [0.50, 0.52, 0.51], "best": [0.80, 0.83, 0.81], "b": [0.51, 0.52, 0.50]})
    best, *others = found.members
    assert best.config_id == "best"
    assert best.in_set
    assert best.low == 0.0
    assert best.high > 0.25
    assert all(not member.in_set and member.high == 0.0 for member in others)
    assert found.text == "Over all runs the best of 3 confirmed configs is best."


def test_bounds_are_hsus() -> None:
    results = {"a": [0.60, 0.52, 0.55, 0.59], "b": [0.58, 0.54, 0.53, 0.57], "c": [0.55, 0.51, 0.56, 0.58]}
    found = ties_of(results)
    pairs, means = Pairs(arms_of(results)), {name: np.mean(values) for name, values in results.items()}
    for name in results:
        member = next(member for member in found.members if member.config_id == name)
        parts = {rival: pairs.difference(name, rival).parts for rival in results if rival != name}
        widths = {rival: part.lower_width(2) for rival, part in parts.items() if part}
        assert len(widths) == 2
        lead = {rival: means[name] - means[rival] for rival in widths}
        ruin = {rival: max(means[name], means[rival]) * rate_bound(0, 4000, 0.05 / 2) for rival in widths}
        reach = {rival: widths[rival] + ruin[rival] for rival in widths}
        assert member.high == pytest.approx(max(0.0, min(lead[rival] + reach[rival] for rival in widths)))
        assert member.low == pytest.approx(min(0.0, min(lead[rival] - reach[rival] for rival in widths)))
    text = "Each of the 3 confirmed configs may be the best, over all runs and in sound ones: a, b, c."
    assert found.text == text


def test_few_runs_rule_nobody_out_on_average() -> None:
    found = ties_of({"a": [0.50, 0.52, 0.51], "best": [0.80, 0.83, 0.81], "b": [0.51, 0.52, 0.50]}, runs=1)
    assert [member.in_set for member in found.members] == [True, True, True]
    assert [member.in_sound_set for member in found.members] == [True, False, False]
    assert found.text == (
        "In sound runs the best of 3 confirmed configs is best. Over all runs any of the 3 may be the best, for runs "
        "may be ruined."
    )


def test_equal_results_say_nothing() -> None:
    assert ties_of({"a": [0.5, 0.5, 0.5], "b": [0.5, 0.5, 0.5]}) is None


def test_a_config_that_shares_too_few_seeds_is_not_ruled_out() -> None:
    found = ties_of({"a": [0.80, 0.83, 0.81], "b": [0.81, 0.82, 0.82], "late": [NAN, 0.1, 0.1]})
    late = next(member for member in found.members if member.config_id == "late")
    assert late.in_set
    assert (late.low, late.high) == (None, None)


RUINED = {"a": [0.80, 0.83, 0.81, 0.0], "b": [0.81, 0.82, 0.82, 0.83], "low": [0.0, 0.0, 0.0]}


def with_ruins(sound: dict[str, list[float]]) -> TieSet:
    """The set of RUINED, whose other runs are ruined."""
    rows, trials = rows_of(RUINED)
    return tie_set(rows, arms_of(RUINED), arms_of(sound), RuinsOf(trials, arms_of(sound), 0.0), CONFIDENCE)


def test_a_mean_is_of_the_sound_runs_and_says_how_many_others_there_are() -> None:
    found = with_ruins({"a": RUINED["a"][:3], "b": RUINED["b"]})
    told = [(one.config_id, round(one.mean, 4), one.num_runs, one.left_out, one.in_sound_set) for one in found.members]
    assert told == [("b", 0.82, 4, 0, True), ("a", 0.8133, 3, 1, True), ("low", 0.0, 0, 3, False)]
    assert found.text.startswith("In sound runs the best of the 2 of 3 confirmed configs that have any is one of b, a.")


def test_without_any_sound_run_the_set_is_of_all_runs_alone() -> None:
    found = with_ruins({})
    assert not any(one.in_sound_set for one in found.members)
    assert (
        found.text == "Each of the 3 confirmed configs may be the best over all runs: b, a, low. None has a sound run."
    )


@pytest.mark.parametrize(
    "results", [{}, {"a": [0.5, 0.6, 0.7]}, {"a": [0.5, 0.6], "b": [0.7, 0.8]}, {"a": [0.5, NAN], "b": [NAN, 0.8]}]
)
def test_without_an_interval_there_is_no_set(results: dict[str, list[float]]) -> None:
    assert ties_of(results) is None
