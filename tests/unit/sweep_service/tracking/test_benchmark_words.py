"""Scores on benchmarks as MLflow shows them."""

import csv

from sweep_service.intake.spec_check import parse_spec
from sweep_service.sweep.evaluations import missing_evaluations
from sweep_service.sweep.plan import first_records
from sweep_service.sweep.records import BenchmarkResult, Evaluation, TrialState
from sweep_service.tracking.benchmark_words import (
    Measured,
    config_score_points,
    measured_models,
    problem_tables,
    score_points,
)
from sweep_service.tracking.tracker import MetricPoint
from tests import stored_sweeps as sweeps

NAMES = ["arithmetic", "expressions"]
INITIAL = Evaluation(
    id="evl_0", sweep_id="swp", config_id="cfg", seed=0, number=1, state=TrialState.SUCCEEDED, threads=1, total_steps=2
)
TRAINED = INITIAL.model_copy(update={"id": "evl_1", "trial_id": "trl", "model_step": 16})


def result(evaluation: Evaluation, name: str, right: int, time: float = 5.0) -> BenchmarkResult:
    content = sweeps.benchmark_result(right)
    return BenchmarkResult(evaluation_id=evaluation.id, benchmark=name, time=time, model_sha256="ab", content=content)


def measured(*pairs: tuple[Evaluation, str, int]) -> list[Measured]:
    return [(evaluation, result(evaluation, name, right)) for evaluation, name, right in pairs]


def test_scores_are_at_the_steps_of_their_models() -> None:
    points = score_points(measured((INITIAL, NAMES[0], 1), (TRAINED, NAMES[0], 4)), NAMES[:1])
    assert points == [
        MetricPoint("benchmark/arithmetic/avg_at_k", 1 / 8, 5000, 0),
        MetricPoint("benchmark/mean", 1 / 8, 5000, 0),
        MetricPoint("benchmark/arithmetic/avg_at_k", 4 / 8, 5000, 16),
        MetricPoint("benchmark/mean", 4 / 8, 5000, 16),
    ]


def test_a_model_has_a_mean_once_it_is_measured_on_all_benchmarks() -> None:
    points = score_points(measured((INITIAL, NAMES[0], 1), (INITIAL, NAMES[1], 3), (TRAINED, NAMES[0], 4)), NAMES)
    assert [(point.step, point.value) for point in points if point.key == "benchmark/mean"] == [(0, 2 / 8)]


def test_a_benchmark_without_a_score_leaves_no_point_and_no_mean() -> None:
    unjudged = result(TRAINED, NAMES[0], 0)
    unjudged.content["scores"]["avg_at_k"]["mean"] = None
    keys = [point.key for point in score_points([(TRAINED, unjudged), *measured((TRAINED, NAMES[1], 2))], NAMES)]
    assert keys == ["benchmark/expressions/avg_at_k"]


def test_pass_at_k_is_that_of_all_samples() -> None:
    one = result(TRAINED, NAMES[0], 2)
    one.content["scores"]["pass_at_k"][2]["mean"] = 0.75
    values = {point.key: point.value for point in score_points([(TRAINED, one)], NAMES)}
    assert values == {"benchmark/arithmetic/avg_at_k": 2 / 8, "benchmark/arithmetic/pass_at_k": 0.75}


def test_a_run_shows_nothing_before_a_model_that_it_has_trained_is_measured() -> None:
    of_initial, of_trained = result(INITIAL, NAMES[0], 0), result(TRAINED, NAMES[0], 1)
    assert measured_models([INITIAL, TRAINED], [of_initial]) == []
    both = [(INITIAL, of_initial), (TRAINED, of_trained)]
    assert measured_models([INITIAL, TRAINED], [of_trained, of_initial]) == both


def test_a_table_has_a_row_for_each_model_and_problem() -> None:
    tables = problem_tables(measured((INITIAL, NAMES[0], 1), (TRAINED, NAMES[0], 4), (TRAINED, NAMES[1], 2)))
    rows = {name: list(csv.DictReader(table.decode().splitlines())) for name, table in tables.items()}
    assert [(row["model_step"], row["problem"], row["right"]) for row in rows["arithmetic"]] == [
        ("0", "one", "1"), ("0", "two", "0"), ("16", "one", "4"), ("16", "two", "0"),
    ]  # fmt: skip
    assert [row["right"] for row in rows["expressions"]] == ["2", "0"]


def test_a_config_has_the_means_over_its_trials() -> None:
    spec = parse_spec(sweeps.SPEC | {"benchmarks": {"names": NAMES[:1], "of": "all"}})
    sweep = sweeps.make_sweep(spec, ended_at=0.007)
    configs, trials = first_records(sweep.spec, sweep.id)
    ended = [trial.model_copy(update={"state": TrialState.SUCCEEDED}) for trial in trials]
    evaluations = missing_evaluations(sweep, configs, ended, [])
    results = [result(one, NAMES[0], 2 + one.seed if one.trial_id else 0) for one in evaluations]
    points = config_score_points(sweep, configs, evaluations, results)
    assert points.keys() == {config.id for config in configs}
    for of_config in points.values():
        assert set(of_config) == {
            MetricPoint(key, value, 7, step)
            for key in ("benchmark/arithmetic/avg_at_k", "benchmark/mean")
            for value, step in ((0.0, 0), (2.5 / 8, 16))
        }
    unmeasured = sweeps.make_sweep(parse_spec(sweeps.SPEC))
    assert config_score_points(unmeasured, configs, [], []) == {}
