"""Translates models' scores on benchmarks to MLflow's words: metrics of trials and configs, and tables. Pure."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from itertools import groupby
from statistics import fmean
from typing import Final

from sweep_service.sweep.benchmark_scores import ProblemScore, as_csv, problem_scores
from sweep_service.sweep.evaluations import models_of_trials
from sweep_service.sweep.records import BenchmarkResult, Config, Evaluation, Sweep
from sweep_service.tracking.mlflow_words import metric_key, milliseconds
from sweep_service.tracking.tracker import MetricPoint

MEAN: Final = "benchmark/mean"
"""Mean of avg@k over the sweep's benchmarks, each of equal weight."""

Measured = tuple[Evaluation, BenchmarkResult]
"""A model and its result on one benchmark."""


def measured_models(models: Sequence[Evaluation], results: Iterable[BenchmarkResult]) -> list[Measured]:
    """Return the results that a trial's run shows: all of its models, those of the initial one first.

    Nothing, until a model that the trial has trained has a result.
    """
    by_model = defaultdict[str, list[BenchmarkResult]](list)
    for result in results:
        by_model[result.evaluation_id].append(result)
    trained = any(by_model[model.id] for model in models if model.trial_id is not None)
    return [(model, result) for model in models for result in by_model[model.id]] if trained else []


def score_points(measured: Sequence[Measured], names: Collection[str]) -> list[MetricPoint]:
    """Return a trial's scores as metrics at the steps of the models.

    Args:
        measured: the results that `measured_models` returns, ordered by model.
        names: the sweep's benchmarks; a model that lacks one of them has no mean yet.
    """
    points: list[MetricPoint] = []
    for step, same_model in groupby(measured, key=lambda pair: pair[0].model_step):
        results = [result for _, result in same_model]
        averages = {result.benchmark: result.content["scores"]["avg_at_k"]["mean"] for result in results}
        for result in results:
            # The largest k: `pass_at_k` is then, as in `eval/pass_at_k`, over all samples.
            passes = max(result.content["scores"]["pass_at_k"], key=lambda row: row["k"])["mean"]
            for score, value in (("avg_at_k", averages[result.benchmark]), ("pass_at_k", passes)):
                if value is not None:
                    key = metric_key(f"benchmark/{result.benchmark}/{score}")
                    points.append(MetricPoint(key, value, milliseconds(result.time), step))
        values = [averages.get(name) for name in names]
        numbers = [value for value in values if value is not None]
        if len(numbers) == len(names):
            points.append(MetricPoint(MEAN, fmean(numbers), milliseconds(max(one.time for one in results)), step))
    return points


def problem_tables(measured: Sequence[Measured]) -> dict[str, bytes]:
    """Return by benchmark a CSV table with a row for each model of a trial and each problem."""
    rows = defaultdict[str, list[ProblemScore]](list)
    for model, result in measured:
        rows[result.benchmark].extend(problem_scores(model, result))
    return {name: as_csv(scores, ProblemScore).encode() for name, scores in rows.items()}


def config_score_points(
    sweep: Sweep,
    configs: Sequence[Config],
    evaluations: Sequence[Evaluation],
    results: Sequence[BenchmarkResult],
) -> dict[str, list[MetricPoint]]:
    """Return by config id the mean over its trials of each metric that these have, at the sweep's end."""
    timestamp = milliseconds(sweep.ended_at or sweep.created_at)
    values: dict[tuple[str, str, int], list[float]] = {}
    for models in models_of_trials(configs, evaluations).values():
        for point in score_points(measured_models(models, results), sweep.benchmarks):
            values.setdefault((models[-1].config_id, point.key, point.step), []).append(point.value)
    points = defaultdict[str, list[MetricPoint]](list)
    for (config_id, key, step), of_trials in values.items():
        points[config_id].append(MetricPoint(key, fmean(of_trials), timestamp, step))
    return points
