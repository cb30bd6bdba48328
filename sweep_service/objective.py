"""The one number by which configs are ranked, computed from the store's rows. Pure.

A trial's objective is the mean of its last evaluations, never a maximum over time. A diverged trial counts 0, a
failed one is missing. A config's objective is the mean over its seeds.
"""

from collections.abc import Mapping, Sequence
from statistics import fmean

from sweep_service.records import Config, Curve, Role, Stage, Trial, TrialState
from sweep_service.spec import Objective


def trial_objectives(
    trials: Sequence[Trial], evaluations: Sequence[Curve], objective: Objective
) -> dict[str, float | None]:
    """Return each trial's objective by trial id; None while it has none.

    Args:
        trials: the trials asked about.
        evaluations: their curves of `objective.metric` (others are ignored).
        objective: which metric, and over how many last evaluations.
    """
    curves = {curve.trial_id: curve for curve in evaluations if curve.key == objective.metric}
    values = {trial_id: [value for value in curve.values if value is not None] for trial_id, curve in curves.items()}
    return {trial.id: trial_objective(trial, values.get(trial.id, ()), objective) for trial in trials}


def trial_objective(trial: Trial, evaluations: Sequence[float], objective: Objective) -> float | None:
    """Return one trial's objective; None while it has none.

    Args:
        evaluations: the values of `objective.metric` that its evaluations recorded, in order.
    """
    if trial.state is TrialState.DIVERGED:
        return 0.0
    if trial.state is not TrialState.SUCCEEDED or len(evaluations) == 0:
        return None
    return fmean(evaluations[-objective.last :])


def config_objectives(
    trials: Sequence[Trial], objectives: Mapping[str, float | None], stage: Stage
) -> dict[str, float]:
    """Return each config's mean over the seeds of one stage that have an objective, by config id."""
    by_config: dict[str, list[float]] = {}
    for trial in trials:
        value = objectives.get(trial.id)
        if trial.stage is stage and value is not None:
            by_config.setdefault(trial.config_id, []).append(value)
    return {config_id: fmean(values) for config_id, values in by_config.items()}


def choose(configs: Sequence[Config], objectives: Mapping[str, float], count: int) -> list[Config]:
    """Return the `count` best points of the space; equal ones in their order. A baseline is never among them."""
    contenders = [
        config
        for config in configs
        if Role.SPACE in config.roles and Role.BASELINE not in config.roles and config.id in objectives
    ]
    return sorted(contenders, key=lambda config: (-objectives[config.id], config.number))[:count]
