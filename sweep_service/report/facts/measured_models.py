"""The models that a sweep has measured on benchmarks: their scores, and the share of right samples of each problem."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sweep_service.report.facts.report_inputs import ReportInputs
from sweep_service.sweep.benchmark_scores import BenchmarkScore
from sweep_service.sweep.records import Evaluation
from trainers.evaluation.problem_parts import digest_name


@dataclass(frozen=True)
class MeasuredModel:
    """A model, with its results on the benchmarks on which it has been measured so far, by name."""

    evaluation: Evaluation
    scores: dict[str, BenchmarkScore]
    rates: dict[str, Mapping[str, float]]
    """Share of right samples by benchmark and problem, named so that `problem_group` tells its group.

    A problem without a judged sample is missing.
    """


def initial_models(inputs: ReportInputs) -> list[MeasuredModel]:
    """Return the models before any update, each named by the first config that starts from it."""
    results = _measured(inputs)
    return [results[one.id] for one in inputs.evaluations if one.trial_id is None]


def final_models(inputs: ReportInputs) -> dict[str, MeasuredModel]:
    """Return by trial id the models after their trials' last update, whether or not they have results by now."""
    results, last = _measured(inputs), {trial.id: trial.total_steps for trial in inputs.trials}
    return {
        one.trial_id: results[one.id]
        for one in inputs.evaluations
        if one.trial_id is not None and one.model_step == last[one.trial_id]
    }


def _name(row: Mapping[str, Any]) -> str:
    """Name a problem by its id, which is unique in its benchmark, and by its group if it has one."""
    group = row.get("group", "")
    return digest_name(group or row["id"], row["id"], grouped=bool(group))


def _measured(inputs: ReportInputs) -> dict[str, MeasuredModel]:
    """Return every model by the id of its evaluation."""
    models = {one.id: MeasuredModel(one, {}, {}) for one in inputs.evaluations}
    for result in inputs.benchmark_results:
        model = models[result.evaluation_id]
        model.scores[result.benchmark] = BenchmarkScore.of(model.evaluation, result)
        model.rates[result.benchmark] = {
            _name(row): row["right"] / row["judged"] for row in result.content["problems"] if row["judged"]
        }
    return models
