"""Warnings about benchmarks: models that have no results on them, and benchmarks that have chosen configs before."""

from collections.abc import Mapping, Sequence
from typing import Final

from sweep_service.report.findings.rule import Evidence, Rule
from sweep_service.report.formatting import count, listed
from sweep_service.report.sweep_facts import Facts
from sweep_service.sweep.endings import Ending
from sweep_service.sweep.evaluations import missing_evaluations
from sweep_service.sweep.records import Evaluation, TrialState

_LISTED: Final = 6
_ENDED: Final[Mapping[Ending | None, str]] = {
    Ending.TIMED_OUT: "ran out of time",
    Ending.OVER_BUDGET: "did not fit the budget",
    Ending.CANCELLED: "stopped with the sweep",
    None: "never finished",
}
"""Words for an evaluation's ending; every other ending is a failure."""


def _not_measured(facts: Facts) -> Evidence | None:
    """Find models that have not been measured, though they were there to be measured."""
    lacking = _lacking(facts)
    if not lacking:
        return None
    models = [*facts.inputs.evaluations, *(one for one in lacking if one not in facts.inputs.evaluations)]
    starts = {one.config_id for one in models if one.trial_id is None}
    by_way: dict[str, list[Evaluation]] = {}
    for one in lacking:
        by_way.setdefault(_ENDED.get(one.ending, "failed"), []).append(one)
    have = "has" if len(lacking) == 1 else "have"
    texts = [f"{len(lacking)} of {count(len(models), 'model')} {have} no result on every benchmark."]
    for way, evaluations in by_way.items():
        names = "; ".join(_model(one, facts, len(starts)) for one in evaluations[:_LISTED])
        more = f"; and {len(evaluations) - _LISTED} more" if len(evaluations) > _LISTED else ""
        message = (evaluations[0].message or "").partition("\n")[0].rstrip(".")
        texts.append(f"{way.capitalize()}: {names}{more}{f' ({message})' if message else ''}.")
    texts += _remedies(facts, lacking)
    return Evidence(" ".join(texts), [one.trial_id for one in lacking if one.trial_id is not None])


def _chosen_by_before(facts: Facts) -> Evidence | None:
    """Find benchmarks by which an earlier sweep of the same initial model chose its configs."""
    earlier = facts.inputs.validated_before
    if not earlier:
        return None
    texts = list[str]()
    for benchmark in dict.fromkeys(one.benchmark for one in earlier):
        same = [f"{one.name} ({one.sweep_id})" for one in earlier if one.benchmark == benchmark]
        texts.append(f"{benchmark} chose the configs of {listed(same, _LISTED)}.")
    texts.append(
        "What this sweep took over from their results was chosen on these problems, so scores on them are too high by "
        "an unknown amount. Measure on a benchmark that has chosen nothing."
    )
    return Evidence(" ".join(texts))


def _lacking(facts: Facts) -> list[Evaluation]:
    """Return the evaluations without all results; while the sweep goes on, only those that have ended."""
    inputs = facts.inputs
    lacking = [one for one in inputs.evaluations if one.state.is_over and one.state is not TrialState.SUCCEEDED]
    if not inputs.interim:
        lacking += [one for one in inputs.evaluations if not one.state.is_over]
        lacking += missing_evaluations(inputs.sweep, inputs.configs, inputs.trials, inputs.evaluations)
    return lacking


def _model(evaluation: Evaluation, facts: Facts, num_starts: int) -> str:
    """Return the model in words: its config, seed and, where there are several, its step."""
    label = facts.rows[evaluation.config_id].label
    if evaluation.trial_id is None:
        return "the initial model" if num_starts == 1 else f"the initial model of {label}"
    asked = facts.inputs.sweep.spec.benchmarks
    step = "" if asked is None or asked.at == "end" else f" step {evaluation.model_step}"
    return f"{label} seed {evaluation.seed}{step}"


def _remedies(facts: Facts, lacking: Sequence[Evaluation]) -> list[str]:
    """Name the settings that let the next sweep measure them, and the command that tries again now."""
    remedies = list[str]()
    if any(one.ending is Ending.OVER_BUDGET for one in lacking):
        remedies.append("Raise budget.max_gpu_hours, or lower budget.max_trial_hours, which each evaluation reserves.")
    sweep = facts.inputs.sweep
    if any(one.ending is not Ending.OVER_BUDGET for one in lacking) and not facts.inputs.interim:
        trained = (one.config_id for one in (*lacking, *facts.inputs.evaluations) if one.trial_id)
        of = next(trained, lacking[0].config_id)  # one is enough: whatever lacks results is tried again with it
        command = f"sweeps benchmarks run {sweep.id} --names {','.join(sweep.benchmarks)} --of {of}"
        remedies.append(f"`{command}` tries again those whose models are kept.")
    return remedies


BENCHMARK_RULES: Final = (
    Rule(
        "BENCHMARKS_MISSING",
        "A model was there to be measured, and its evaluation has ended without every benchmark, or never began.",
        _not_measured,
    ),
    Rule(
        "BENCHMARK_CHOSE_BEFORE",
        "An earlier sweep of this store that starts from the same initial model has one of this sweep's benchmarks as "
        "its task.validation.",
        _chosen_by_before,
    ),
)
