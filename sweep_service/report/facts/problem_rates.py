"""The share of right samples of each validation problem, trial by trial, over a trial's last evaluations."""

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from statistics import fmean

from sweep_service.report.facts.report_inputs import ReportInputs
from sweep_service.sweep.objective import COUNTED
from sweep_service.sweep.records import ProblemCounts, Stage, TrialState
from trainers.evaluation.problem_parts import split_problems


def problem_rates(inputs: ReportInputs, stage: Stage = Stage.CONFIRM) -> dict[str, dict[str, float]]:
    """Return the rates by trial of a stage and problem, of the problems that measure the stage.

    Of a sweep without a confirm stage these are half of the problems, as many as would measure one.

    Each occurrence of a problem counts, as in the objective: the second one of a name is `name#1`, of the same
    `problem_group`. A problem whose samples the judge could not judge in any evaluation is missing. A diverged trial
    counts on every problem what the objective says. Empty if the objective is another metric, or there are no counts.
    """
    if inputs.sweep.spec.objective.metric != COUNTED:
        return {}
    by_trial: dict[str, list[ProblemCounts]] = {}
    for counts in inputs.problem_counts:
        by_trial.setdefault(counts.trial_id, []).append(counts)
    halves = inputs.halves or inputs.sweep.spec.seeds.confirm is None
    part = ("confirm_part" if stage is Stage.CONFIRM else "tune_part") if halves else None
    trials = [trial for trial in inputs.trials if trial.stage is stage]
    measuring: dict[Sequence[str], set[str]] = {}  # names of the part's problems; all where there are no parts
    for names in {counts.names for counts in inputs.problem_counts}:
        parts = split_problems(names)
        measuring[names] = {names[index] for index in parts[part]} if part in parts else set(names)
    rates: dict[str, dict[str, float]] = {}
    for trial in trials:
        if trial.state.evaluations_count and (of_trial := by_trial.get(trial.id)):
            shares: dict[str, list[float]] = {}
            for counts in of_trial:
                keys = _keys(counts.names)
                for key, name, judged, right in zip(keys, counts.names, counts.judged, counts.right, strict=True):
                    if judged and name in measuring[counts.names]:
                        shares.setdefault(key, []).append(right / judged)
            rates[trial.id] = {name: fmean(values) for name, values in shares.items()}
    everywhere = dict.fromkeys(name for of_trial in rates.values() for name in of_trial)
    if everywhere:
        diverged = [trial for trial in trials if trial.state is TrialState.DIVERGED]
        rates |= {trial.id: dict.fromkeys(everywhere, inputs.sweep.spec.objective.diverged) for trial in diverged}
    return rates


@lru_cache(maxsize=64)
def _keys(names: tuple[str, ...]) -> tuple[str, ...]:
    """Tell the occurrences of each name apart."""
    if len(set(names)) == len(names):
        return names
    seen = Counter[str]()
    keys = list[str]()
    for name in names:
        keys.append(f"{name}#{seen[name]}" if seen[name] else name)
        seen[name] += 1
    return tuple(keys)
