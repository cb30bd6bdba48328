"""What a plan says of early stopping: rules replayed on an earlier sweep of the same kind, or on the recorded grid."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final

from pydantic import ValidationError

from sweep_service.stopping.forecast import LEAST, Recorded, forecasts, kept_grid, recorded_runs
from sweep_service.store import Store
from sweep_service.sweep.evaluations import question
from sweep_service.sweep.objective import objective_metrics
from sweep_service.sweep.plan import StoppingForecasts, SweepPlan, droppable
from sweep_service.sweep.records import Config, Role, Stage, Sweep, SweepState, Trial, TrialState
from sweep_service.sweep.spec import SweepSpec
from sweep_service.sweep.sweep_filter import SweepFilter

_MOST_EVALUATIONS: Final = 40
"""Largest number of evaluations of a run that is replayed."""
_NEWEST: Final = 30
"""Number of sweeps that are looked through for one of the same kind."""
_ENDED: Final = SweepFilter(states=(SweepState.SUCCEEDED,))


def stopping_forecasts(store: Store, spec: SweepSpec, plan: SweepPlan) -> StoppingForecasts:
    """Return what rules would save and lose in a planned sweep, or why nobody can tell."""
    if not spec.search.is_grid:
        why = f"{spec.search.strategy} draws its points one by one, by the results of those before"
        return StoppingForecasts(basis=f"cannot be foretold: {why}")
    if spec.trainer is not None:
        return StoppingForecasts(basis="cannot be foretold for a trainer of one's own: no curves like its are recorded")
    recorded = next(_earlier(store, spec), None) or kept_grid()
    shown = "{} configs x {} seeds".format(*recorded.size)
    contenders = droppable(spec)
    share = contenders * len(spec.seeds.tune) / sum(plan.trials.values())
    return StoppingForecasts(
        basis=f"replays of {recorded.name}, {shown}",
        rules=forecasts(spec, recorded, contenders, plan.hours, min(1.0, share)),
    )


def _earlier(store: Store, spec: SweepSpec) -> Iterator[Recorded]:
    """Yield the grids of earlier sweeps of the same model and task that were trained to their end, the newest first."""
    for sweep in store.list_sweeps(_NEWEST, only=_ENDED):
        if _is_alike(sweep.spec, spec) and (grid := _grid_of(store, sweep)):
            yield grid


def _is_alike(earlier: SweepSpec, spec: SweepSpec) -> bool:
    if earlier.early_stopping or earlier.health.acts or earlier.trainer or not earlier.search.is_grid:
        return False
    if earlier.objective.metric != spec.objective.metric or len(earlier.seeds.tune) < LEAST:
        return False
    with suppress(ValidationError):  # refused today: its loss's package may be gone
        return question(earlier.base) == question(spec.base)
    return False


def _grid_of(store: Store, sweep: Sweep) -> Recorded | None:
    """Return the tune runs of the contenders that have all their results; None if they are too few."""
    configs = [one for one in store.list_configs(sweep.id) if one.is_contender and Role.DAPO not in one.roles]
    trials = [one for one in store.list_trials(sweep.id) if one.stage is Stage.TUNE]
    whole = [config for config in configs if _is_whole(config, trials)]
    if len(whole) < LEAST:
        return None
    ids = {config.id for config in whole}
    metric = objective_metrics(sweep.spec)[0]
    curves = {curve.trial_id: curve for curve in store.curves(sweep.id, [metric])}
    of_seed = {(one.config_id, one.seed): one.id for one in trials if one.config_id in ids}
    if any(id_ not in curves for id_ in of_seed.values()):
        return None
    whole_runs = {tuple(curves[one.id].steps) for one in trials if one.config_id in ids and one.state.evaluations_count}
    if len(whole_runs) != 1:  # configs that are evaluated at unlike steps
        return None
    (steps,) = whole_runs
    runs = [
        [[value or 0.0 for value in curves[of_seed[config.id, seed]].values] for seed in sweep.spec.seeds.tune]
        for config in whole
    ]
    if not LEAST < len(steps) <= _MOST_EVALUATIONS or any(len(values) > len(steps) for own in runs for values in own):
        return None
    samples, objective = store.judged_samples(trials[0].id), sweep.spec.objective
    return recorded_runs(f"sweep {sweep.name}", steps, runs, objective.last, samples, objective.diverged)


def _is_whole(config: Config, trials: Sequence[Trial]) -> bool:
    own = [one for one in trials if one.config_id == config.id]
    return all(one.state in (TrialState.SUCCEEDED, TrialState.DIVERGED) for one in own)
