"""The models that a sweep has measured on benchmarks: their scores, and the share of right samples of each problem."""

from collections.abc import Mapping
from dataclasses import dataclass

from sweep_service.report.facts.report_inputs import ReportInputs
from sweep_service.sweep.benchmark_scores import BenchmarkScore
from sweep_service.sweep.records import Evaluation


@dataclass(frozen=True)
class MeasuredModel:
    """A model, with its results on the benchmarks on which it has been measured so far, by name."""

    evaluation: Evaluation
    scores: Mapping[str, BenchmarkScore]
    rates: Mapping[str, Mapping[str, float]]
    """Share of right samples by benchmark and problem; a problem without a judged sample is missing."""


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


def _measured(inputs: ReportInputs) -> dict[str, MeasuredModel]:
    """Return every model by the id of its evaluation."""
    scores = {one.id: dict[str, BenchmarkScore]() for one in inputs.evaluations}
    rates = {one.id: dict[str, Mapping[str, float]]() for one in inputs.evaluations}
    by_id = {one.id: one for one in inputs.evaluations}
    for result in inputs.benchmark_results:
        scores[result.evaluation_id][result.benchmark] = BenchmarkScore.of(by_id[result.evaluation_id], result)
        rates[result.evaluation_id][result.benchmark] = {
            row["id"]: row["right"] / row["judged"] for row in result.content["problems"] if row["judged"]
        }
    return {id_: MeasuredModel(by_id[id_], scores[id_], rates[id_]) for id_ in by_id}
