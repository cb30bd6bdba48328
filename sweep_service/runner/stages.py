"""The next step of a sweep, from its rows alone: another proposal, the confirm stage, or nothing more. Pure."""

from collections.abc import Sequence

from search_spaces.sampling import Observation, propose
from search_spaces.written_numbers import as_written
from sweep_service.intake.space_check import point_error
from sweep_service.sweep.objective import choose, config_objectives, selection_objectives, trial_objectives
from sweep_service.sweep.plan import add_config, confirm_records, make_trials, new_points
from sweep_service.sweep.records import Config, Curve, Role, Stage, Sweep, Trial

Records = tuple[list[Config], list[Trial]]


class RefusedProposal(Exception):
    """Training refuses a point that the sampler has drawn, and the same rows would give the same point again."""


def next_records(
    sweep: Sweep,
    configs: Sequence[Config],
    trials: Sequence[Trial],
    evaluations: Sequence[Curve],
    *,
    may_propose: bool = True,
) -> Records | None:
    """Return the configs (new ones, or with a new role) and trials that come next, or None.

    None means that nothing follows, if every trial has ended; otherwise that nothing follows until another one ends.

    Args:
        sweep, configs, trials: all rows of the sweep.
        evaluations: curves of the objective's metrics.
        may_propose: whether the budget has room for one more point on every tune seed, and has not ended the stage.

    Raises: RefusedProposal.
    """
    spec = sweep.spec
    points = new_points(spec, sweep.id, configs)  # of a grid; the sweep may have got them, or seeds, after it had begun
    present = {config.id: config for config in (*configs, *points)}  # a new role takes the place of the old ones
    tuning = [one for one in present.values() if set(one.roles) != {Role.MATCHED} and one.dropped is None]
    new = _missing(make_trials(spec, sweep.id, tuning, Stage.TUNE, _next_number(trials)), trials)
    if points or new:
        return points, new
    objectives = trial_objectives(trials, evaluations, spec)
    values = config_objectives(trials, objectives, Stage.TUNE)
    if may_propose and (proposed := _next_proposal(sweep, configs, trials, values)):
        return proposed
    if spec.seeds.confirm is None or not all(trial.state.is_over for trial in trials):
        return None
    chosen = choose(configs, selection_objectives(trials, objectives), spec.seeds.confirm.top_k)
    if not chosen:
        return None
    changed, confirming = confirm_records(spec, sweep.id, configs, chosen, _next_number(trials))
    new = _missing(confirming, trials)
    return (changed, new) if new else None


def _missing(wanted: Sequence[Trial], trials: Sequence[Trial]) -> list[Trial]:
    """Return the wanted trials that the sweep does not have, with their numbers in a row."""
    present = {(trial.config_id, trial.seed, trial.stage) for trial in trials}
    new = [trial for trial in wanted if (trial.config_id, trial.seed, trial.stage) not in present]
    first = _next_number(trials)
    return [trial.model_copy(update={"number": first + place}) for place, trial in enumerate(new)]


def _next_proposal(
    sweep: Sweep, configs: Sequence[Config], trials: Sequence[Trial], values: dict[str, float]
) -> Records | None:
    """Ask the sampler for one more point. If it equals a baseline, that config gets its role and no new trials.

    A matched baseline was only confirmed, and is tuned like a new config.
    """
    spec = sweep.spec
    points = [config for config in configs if Role.SPACE in config.roles]
    if spec.search.is_grid or len(points) >= (spec.search.num_configs or 0):
        return None
    history = [_observation(config, trials, values.get(config.id)) for config in points]
    point = propose(spec.space, spec.search.strategy, spec.search.seed, history)
    if point is None:
        return None
    if error := point_error(spec, point):
        remedy = "submit a sweep whose space leaves such points out, by ranges with a step or by lists of values"
        raise RefusedProposal(f"{spec.search.strategy} drew a point that training refuses: {error.detail}; {remedy}")
    by_id = {config.id: config for config in configs}
    config = add_config(by_id, sweep.id, Role.SPACE, spec.at(point))
    tuned = any(trial.config_id == config.id and trial.stage is Stage.TUNE for trial in trials)
    new = [] if tuned else [config]
    return [config], make_trials(spec, sweep.id, new, Stage.TUNE, _next_number(trials))


def _observation(config: Config, trials: Sequence[Trial], value: float | None) -> Observation:
    tune = [trial for trial in trials if trial.config_id == config.id and trial.stage is Stage.TUNE]
    params = as_written(config.params)  # configs of before were stored with whatever was given
    if config.dropped is not None:
        return Observation(config.number, params, config.dropped.value, "pruned", config.dropped.mark)
    if not all(trial.state.is_over for trial in tune):
        return Observation(config.number, params, None, "running")
    return Observation(config.number, params, value, "failed" if value is None else "complete")


def _next_number(trials: Sequence[Trial]) -> int:
    return max((trial.number for trial in trials), default=-1) + 1
