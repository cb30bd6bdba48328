"""The table of benchmarks in reports of made-up sweeps."""

from collections.abc import Collection
from dataclasses import replace
from statistics import fmean
from typing import Any

import pytest

from sweep_service.report.build import build
from sweep_service.report.facts.report_inputs import ReportInputs
from sweep_service.report.model import BenchmarkDifference, BenchmarkRow, BenchmarkTable
from sweep_service.report.parts.benchmark_table import benchmark_table
from sweep_service.report.render.html import render_html
from sweep_service.report.render.markdown import render_markdown
from sweep_service.report.sweep_facts import Facts
from sweep_service.sweep.records import BenchmarkResult, Config, Evaluation, Role, Stage, TrialState
from tests.unit.sweep_service.report.report_benchmarks import (
    NAMES,
    better_than_baseline,
    measured_inputs,
    no_gain,
    without_result,
)
from tests.unit.sweep_service.report.report_sweeps import on_seeds
from tests.unit.sweep_service.report.report_worlds import confirms, ending, is_baseline


def table(**changes: object) -> BenchmarkTable:
    return build(measured_inputs(**changes)).benchmarks  # pyright: ignore[reportArgumentType, reportReturnType]


def differences(found: BenchmarkTable) -> list[BenchmarkDifference]:
    return [cell.difference for row in found.rows for cell in row.cells if cell and cell.difference]


def row_of(found: BenchmarkTable, label: str) -> BenchmarkRow:
    return next(row for row in found.rows if row.label == label)


def seeds_of(row: BenchmarkRow) -> list[int | None]:
    """How many seeds each cell has."""
    return [cell and cell.num_seeds for cell in row.cells]


def with_half_unjudged(result: BenchmarkResult) -> list[dict[str, Any]]:
    """Return a result's problems as if the judge had failed on half of the samples, and on wrong ones first."""
    return [
        one | {"judged": one["judged"] // 2, "right": min(one["right"], one["judged"] // 2)}
        for one in result.content["problems"]
    ]


def lead(inputs: ReportInputs, config_id: str, seeds: Collection[int]) -> float:
    """Return how far a config is ahead of the baseline on the first benchmark, in the mean over these seeds."""
    baseline = next(config.id for config in inputs.configs if Role.BASELINE in config.roles)
    trials = {(t.config_id, t.seed): t.id for t in inputs.trials if t.stage is Stage.CONFIRM}
    evaluations = {one.trial_id: one.id for one in inputs.evaluations}
    problems = {r.evaluation_id: r.content["problems"] for r in inputs.benchmark_results if r.benchmark == NAMES[0]}

    def share(config_id: str, seed: int) -> float:
        return fmean(one["right"] / one["judged"] for one in problems[evaluations[trials[config_id, seed]]])

    return fmean(share(config_id, seed) - share(baseline, seed) for seed in seeds)


def test_benchmarks_change_nothing_else_and_leave_no_trace_where_there_are_none() -> None:
    inputs = measured_inputs()
    spec = inputs.sweep.spec.model_copy(update={"benchmarks": None})
    sweep = inputs.sweep.model_copy(update={"spec": spec})
    with_them, plain = build(inputs), build(replace(inputs, sweep=sweep, evaluations=(), benchmark_results=()))
    assert plain.benchmarks is None
    own = {"benchmarks": True, "inputs_digest": True, "trials": {"__all__": {"benchmarks"}}}
    assert plain.model_dump(exclude=own) == with_them.model_dump(exclude=own)
    for rendering in (render_html(plain), render_markdown(plain)):
        assert b"Benchmarks" not in rendering
        assert b'id="benchmarks"' not in rendering


def test_rows_are_the_initial_model_the_baseline_comparators_and_the_chosen_configs() -> None:
    found = table()
    chosen = ["β1=0 β2=1", "β1=0.5 β2=1"]
    assert [row.label for row in found.rows] == ["initial model", "baseline β1=0 β2=0", "DAPO", *chosen]
    assert [column.benchmark for column in found.columns] == [*NAMES, None]
    assert {row.stage for row in found.rows[1:]} == {Stage.CONFIRM}
    initial, baseline = found.rows[:2]
    assert [cell and cell.difference for cell in (*initial.cells, *baseline.cells)] == [None] * 6
    sizes = [cell and (cell.num_seeds, cell.num_problems, cell.k) for cell in baseline.cells]
    assert sizes == [(4, 30, 16), (4, 30, 16), (4, 60, None)]


def test_the_mean_over_benchmarks_weighs_them_equally_and_seeds_give_each_cell() -> None:
    inputs = measured_inputs()
    row = row_of(build(inputs).benchmarks, "β1=0 β2=1")
    first, second, mean = row.cells
    assert mean.mean == pytest.approx((first.mean + second.mean) / 2)
    trials = {t.id for t in inputs.trials if t.config_id == row.config_id and t.stage is Stage.CONFIRM}
    own = {one.id for one in inputs.evaluations if one.trial_id in trials}
    problems = [
        problem["right"] / problem["judged"]
        for result in inputs.benchmark_results
        if result.evaluation_id in own and result.benchmark == NAMES[0]
        for problem in result.content["problems"]
    ]
    assert len(problems) == 4 * 30
    assert first.mean == pytest.approx(sum(problems) / len(problems))
    assert first.pass_at_k[1] == pytest.approx(first.mean)
    assert list(first.pass_at_k) == [1, 2, 4, 8, 16]
    assert sorted(first.pass_at_k.values()) == list(first.pass_at_k.values())


def test_a_known_difference_is_shown() -> None:
    found = table()
    for difference in differences(found):
        assert difference.shown
        assert 0 < difference.low < 0.15 < difference.high
        below, above = difference.difference - difference.low, difference.high - difference.difference
        assert below > above  # the lower ends hold for all configs at once
        assert (difference.num_seeds, difference.num_problems) in ((4, 30), (4, 60))
    assert all(column.leader is not None for column in found.columns)
    assert any("3 configs at once" in line for line in found.text)


def test_noise_is_shown_no_more_often_than_five_in_a_hundred() -> None:
    tables = [table(gain=no_gain, draw=draw) for draw in range(12)]
    shown = [difference.shown for found in tables for difference in differences(found)]
    assert len(shown) == 12 * 9
    assert sum(shown) <= 0.05 * len(shown)
    leaders = [column.leader for found in tables for column in found.columns]
    assert sum(leader is not None for leader in leaders) <= 0.05 * len(leaders)


@pytest.mark.parametrize(
    ("advantage", "gain", "sentence"),
    [
        (
            0.08,
            0.15,
            "agrees with the verdict AHEAD ON THESE PROBLEMS: β1=0 β2=1 is shown to be better than the baseline on it",
        ),
        (
            0.08,
            0.0,
            "neither supports nor opposes the verdict AHEAD ON THESE PROBLEMS: it cannot tell β1=0 β2=1 from the",
        ),
        (0.08, -0.15, "goes against the verdict AHEAD ON THESE PROBLEMS: β1=0 β2=1 is shown to be worse"),
        (-0.08, -0.15, "agrees with the verdict BEHIND ON THESE PROBLEMS: β1=0 β2=1 is shown to be worse"),
        (0.0, 0.0, "agrees with the verdict UNDECIDED: it cannot tell β1=0 β2=1 from the baseline"),
        (0.0, 0.15, "says more than the verdict UNDECIDED: β1=0 β2=1 is shown to be better"),
    ],
)
def test_benchmarks_are_held_against_the_verdict_and_never_change_it(
    advantage: float, gain: float, sentence: str
) -> None:
    def gains(config: Config, evaluation: Evaluation) -> float:
        return gain if better_than_baseline(config, evaluation) else 0.0

    inputs = measured_inputs(gains, spec={"objective": {"relevant": 0.01}}, advantage=advantage)
    report = build(inputs)
    assert report.verdict == build(replace(inputs, evaluations=(), benchmark_results=())).verdict
    assert report.benchmarks.sentence.startswith("The mean over benchmarks ")
    assert sentence in report.benchmarks.sentence


def test_benchmarks_are_held_against_a_verdict_about_a_matched_baseline_for_the_same_two_configs() -> None:
    def gains(config: Config, evaluation: Evaluation) -> float:
        return 0.15 if evaluation.trial_id and Role.SPACE in config.roles else 0.0

    spec = {"space": {"loss.beta1": [0.0, 0.25], "loss.beta2": 1.0, "optimizer.learning_rate": [3e-4, 1e-3]}}
    report = build(measured_inputs(gains, spec=spec, advantage=0.08))
    assert report.verdict.comparison.comparator_role is Role.MATCHED
    assert "is shown to be better than its matched baseline on it" in report.benchmarks.sentence


def test_fewer_than_three_paired_seeds_have_no_interval() -> None:
    found = table(spec=on_seeds(confirm=(10, 11), top_k=1))
    assert {(one.num_seeds, one.low, one.high, one.shown) for one in differences(found)} == {(2, None, None, False)}
    assert "without an interval, 2 paired seeds" in found.sentence
    assert any("on fewer than 3 paired seeds have no interval" in line for line in found.text)


def test_models_that_were_not_measured_are_missing_and_counted() -> None:
    fate = ending(lambda c, t: confirms(c, t, {10}), TrialState.DIVERGED, step=100)
    inputs = measured_inputs(fate=fate)
    failing = {trial.id for trial in inputs.trials if trial.seed == 11}
    found = build(measured_inputs(fate=fate, fails=lambda one: one.trial_id in failing)).benchmarks
    row = row_of(found, "β1=0 β2=1")
    assert row.missing == {"diverged": 1, "evaluation failed": 1}
    assert seeds_of(row) == [2, 2, 2]
    assert row_of(found, "baseline β1=0 β2=0").missing == {"evaluation failed": 1}
    assert any("1 diverged, " in line and "flatters" in line for line in found.text)


def test_a_benchmark_that_one_model_lacks_leaves_it_out_of_the_mean_alone() -> None:
    inputs, trial = without_result(measured_inputs())
    found = build(inputs).benchmarks
    row = next(row for row in found.rows if row.config_id == trial.config_id and not row.initial)
    assert seeds_of(row) == [4, 3, 3]
    assert row.missing == {"asked for on fewer": 1}


def test_only_models_after_the_last_step_are_in_the_table() -> None:
    both, early = (table(spec={"benchmarks": {"names": list(NAMES), "at": at}}) for at in ([120, 240], [120]))
    assert seeds_of(both.rows[1]) == [4, 4, 4]
    assert early.rows[0].cells[0] is not None
    assert [cell for row in early.rows[1:] for cell in row.cells] == [None] * 3 * (len(early.rows) - 1)
    assert any("The spec asks for models after step 120" in line for line in early.text)


def test_results_on_tune_seeds_have_no_interval() -> None:
    seeds = {"tune": [0, 1, 2], "confirm": {"top_k": 2, "seeds": [10, 11, 12, 13]}}
    found = table(spec={"benchmarks": {"names": list(NAMES), "of": "all"}, "seeds": seeds})
    row = row_of(found, "β1=1 β2=1")
    assert row.stage is Stage.TUNE
    difference = row.cells[0].difference
    assert (difference.num_seeds, difference.low, difference.shown) == (3, None, False)
    assert any("because these seeds chose the configs" in line for line in found.text)
    assert row_of(found, "β1=0 β2=1").stage is Stage.CONFIRM


def test_a_config_that_leads_on_tune_seeds_alone_does_not_lead() -> None:
    def gains(config: Config, evaluation: Evaluation) -> float:
        in_tune_stage = evaluation.seed in (0, 1) and config.params == {"loss.beta1": 1.0, "loss.beta2": 1.0}
        return 0.2 if in_tune_stage else better_than_baseline(config, evaluation)

    found = table(gain=gains, spec={"benchmarks": {"names": list(NAMES), "of": "all"}})
    ahead = row_of(found, "β1=1 β2=1")
    assert ahead.stage is Stage.TUNE
    for place, column in enumerate(found.columns):
        means = {row.config_id: cell.mean for row in found.rows if (cell := row.cells[place])}
        assert max(means, key=means.__getitem__) == ahead.config_id
        assert column.leader not in (None, ahead.config_id)


def test_a_seed_is_compared_with_the_same_seed_though_the_baseline_lacks_another() -> None:
    fate = ending(lambda c, t: is_baseline(c) and t.seed == 11, TrialState.DIVERGED)

    def gains(config: Config, evaluation: Evaluation) -> float:
        return better_than_baseline(config, evaluation) + (0.2 if evaluation.seed == 11 else 0.0)

    inputs = measured_inputs(gains, fate=fate)
    row = row_of(build(inputs).benchmarks, "β1=0 β2=1")
    difference = row.cells[0].difference
    assert difference.num_seeds == 3
    assert difference.difference == pytest.approx(lead(inputs, row.config_id, (10, 12, 13)))


def test_a_sample_that_no_judge_could_judge_is_not_compared_as_wrong() -> None:
    inputs = measured_inputs()
    trials = {trial.id for trial in inputs.trials if trial.seed == 12}
    partly = {one.id for one in inputs.evaluations if one.trial_id in trials}
    results = [
        result.model_copy(update={"content": result.content | {"problems": with_half_unjudged(result)}})
        if result.evaluation_id in partly
        else result
        for result in inputs.benchmark_results
    ]
    changed = replace(inputs, benchmark_results=tuple(results))
    row = row_of(build(changed).benchmarks, "β1=0 β2=1")
    assert row.cells[0].difference.difference == pytest.approx(lead(changed, row.config_id, (10, 11, 12, 13)))


def test_a_problem_that_no_judge_could_judge_is_compared_with_none() -> None:
    inputs = measured_inputs()
    trial = next(t for t in inputs.trials if t.seed == 12)
    evaluation = next(one for one in inputs.evaluations if one.trial_id == trial.id)
    results = list(inputs.benchmark_results)
    place = next(place for place, one in enumerate(results) if one.evaluation_id == evaluation.id)
    problems = results[place].content["problems"]
    unjudged = [problems[0] | {"judged": 0, "right": 0}, *problems[1:]]
    changed = results[place].model_copy(update={"content": results[place].content | {"problems": unjudged}})
    found = build(replace(inputs, benchmark_results=(*results[:place], changed, *results[place + 1 :]))).benchmarks
    compared = {row.config_id: cell.difference for row in found.rows if (cell := row.cells[0]) and cell.difference}
    assert {id_: one.num_problems for id_, one in compared.items()} == dict.fromkeys(compared, 30) | {
        trial.config_id: 29
    }


@pytest.mark.parametrize(("ruins", "seeds", "has_interval"), [((11,), (10, 12, 13), True), ((11, 12), None, False)])
def test_models_of_ruined_runs_are_left_out_while_enough_others_are_left(
    ruins: Collection[int], seeds: Collection[int] | None, has_interval: bool
) -> None:
    inputs = measured_inputs()
    facts = Facts(inputs)
    config_id = row_of(build(inputs).benchmarks, "β1=0 β2=1").config_id
    fallen = [t.id for t in inputs.trials if t.config_id == config_id and t.seed in ruins and t.stage is Stage.CONFIRM]
    vars(facts)["ruined"] = frozenset(fallen)
    difference = row_of(benchmark_table(facts), "β1=0 β2=1").cells[0].difference
    assert difference.difference == pytest.approx(lead(inputs, config_id, seeds or (10, 11, 12, 13)))
    assert (difference.low is not None) is has_interval
    assert not difference.shown or has_interval


def test_problems_of_one_group_count_once_on_a_benchmark_too() -> None:
    inputs = measured_inputs()

    def grouped(result: BenchmarkResult) -> BenchmarkResult:
        rows = [row | {"group": f"family {place // 5}"} for place, row in enumerate(result.content["problems"])]
        return result.model_copy(update={"content": result.content | {"problems": rows}})

    alike = replace(inputs, benchmark_results=tuple(map(grouped, inputs.benchmark_results)))
    apart, families = (row_of(build(one).benchmarks, "β1=0 β2=1").cells[0].difference for one in (inputs, alike))
    assert families.difference == pytest.approx(apart.difference)
    assert families.high != apart.high


def test_one_benchmark_has_no_mean_beside_it() -> None:
    found = table(names=["aime24"])
    assert [column.benchmark for column in found.columns] == ["aime24"]
    assert found.sentence.startswith("The benchmark ")


def test_fewer_problems_show_less() -> None:
    few, many = table(problems=30), table(problems=480)
    widths = [[one.high - one.difference for one in differences(found) if one.high] for found in (few, many)]
    assert max(widths[1]) < min(widths[0])
    assert few.text[0].startswith("aime24 has 30 problems: with other problems of the kind, one model's avg@16 could ")
    assert "a difference paired by seed and problem is known to ±0.0" in few.text[0]


def test_evaluations_cost_gpu_hours_but_no_trial_hours() -> None:
    spec = {"resources": {"gpus": 1}, "benchmarks": {"names": ["aime24"], "resources": {"gpus": 2}}}
    inputs = measured_inputs(spec=spec)
    without = replace(inputs, evaluations=(), benchmark_results=())
    with_them, alone = build(inputs).sweep, build(without).sweep
    assert with_them.gpu_hours == pytest.approx(alone.gpu_hours + 2 * 0.5 * len(inputs.evaluations))
    assert with_them.trial_hours == alone.trial_hours


def test_page_and_markdown_say_what_the_table_says() -> None:
    report = build(measured_inputs())
    for rendering in (render_markdown(report).decode(), render_html(report).decode()):
        assert report.benchmarks.sentence in rendering.replace("\\", "")
