"""The table of rules, and what each sees of a sweep's rows. A new rule is a module beside this one, and a row here."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from sweep_service.stopping import asha, median, paired, rungs
from sweep_service.stopping.standing import Run, Standing
from sweep_service.sweep.early_stopping import Asha, EarlyStopping, Median, Paired, Rungs
from sweep_service.sweep.objective import trial_objectives, used_measures
from sweep_service.sweep.records import Config, Curve, Judgement, Role, Stage, Trial, TrialState
from sweep_service.sweep.spec import SweepSpec


class Rule(NamedTuple):
    """A way to drop configs."""

    judge: Callable[[Standing, Any], list[Judgement]]
    """Returns new judgements, from what there is and the rule's settings."""
    words: Callable[[Judgement, Mapping[str, str]], str]
    """Says why a config is dropped, with the names of configs by id."""


RULES: Final[Mapping[type[EarlyStopping], Rule]] = {
    Paired: Rule(lambda standing, settings: paired.judge(standing, settings.level), paired.words),
    Rungs: Rule(lambda standing, _: rungs.judge(standing), rungs.words),
    Median: Rule(lambda standing, settings: median.judge(standing, settings.grace, settings.min_runs), median.words),
    Asha: Rule(lambda standing, settings: asha.judge(standing, settings.grace, settings.reduction), asha.words),
}


def judge(
    spec: SweepSpec,
    configs: Sequence[Config],
    trials: Sequence[Trial],
    evaluations: Sequence[Curve],
    judged: Sequence[Judgement],
) -> list[Judgement]:
    """Return the new judgements of a sweep's rule, each drop in words; none without a rule, or once configs are chosen.

    Args:
        configs, trials: all rows of the sweep.
        evaluations: curves of the objective's metrics.
        judged: all judgements so far.
    """
    if spec.early_stopping is None or any(trial.stage is Stage.CONFIRM for trial in trials):
        return []
    rule = RULES[type(spec.early_stopping)]
    new = rule.judge(standing_of(spec, configs, trials, evaluations, judged), spec.early_stopping)
    names = {config.id: f"config {config.number}" for config in configs}
    return [one.model_copy(update={"message": rule.words(one, names)}) if one.dropped else one for one in new]


def standing_of(
    spec: SweepSpec,
    configs: Sequence[Config],
    trials: Sequence[Trial],
    evaluations: Sequence[Curve],
    judged: Sequence[Judgement],
) -> Standing:
    """Return what a rule sees of these rows; the arguments are those of `judge`."""
    tune = [trial for trial in trials if trial.stage is Stage.TUNE]
    curves = {(curve.trial_id, curve.key): curve for curve in evaluations}
    recorded = {key: [value for value in curve.values if value is not None] for key, curve in curves.items()}
    metric = used_measures(tune, lambda trial_id, key: recorded.get((trial_id, key), ()), spec)[Stage.TUNE]
    results = trial_objectives(tune, evaluations, spec)
    runs = defaultdict[str, dict[int, Run]](dict)
    for trial in tune:
        if trial.state is not TrialState.PENDING or trial.step:
            runs[trial.config_id][trial.seed] = _run(trial, curves.get((trial.id, metric)), results[trial.id])
    return Standing(
        runs={one.id: runs[one.id] for one in configs if one.is_contender and Role.DAPO not in one.roles},
        seeds=spec.seeds.tune,
        total_steps=max((trial.total_steps for trial in tune), default=0),
        last=spec.objective.last,
        top_k=spec.chosen,
        judged=[one for one in judged if one.sign is None],
        by_signs=[one for one in judged if one.sign is not None],
    )


def _run(trial: Trial, curve: Curve | None, result: float | None) -> Run:
    points = [] if curve is None else [*zip(curve.steps, curve.values, strict=True)]
    present = [(step, value) for step, value in points if value is not None]
    steps, values = [step for step, _ in present], [value for _, value in present]
    is_over = trial.state.is_over and trial.state is not TrialState.CANCELLED  # for want of budget, and may go on
    return Run(steps, values, is_over, result, trial.state is TrialState.DIVERGED)
