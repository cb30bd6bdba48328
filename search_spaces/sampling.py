"""The choice of the next point: `propose`, a pure function of the space and what was observed, drawn by Optuna.

The study is rebuilt from the observations at every call, so there is no state to lose or to disagree with the rows.
"""

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, assert_never

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import TrialState

from search_spaces.distributions import Categorical, Fixed, Float, Int, Scalar
from search_spaces.space import Point, SearchSpace
from search_spaces.strategies import STRATEGIES, Strategy

_STATES = {
    "complete": TrialState.COMPLETE,
    "running": TrialState.RUNNING,
    "failed": TrialState.FAIL,
    "pruned": TrialState.PRUNED,
}
_MAX_DRAWS = 100


@dataclass(frozen=True)
class Observation:
    """A proposed point and its outcome: one value per point, over all its seeds.

    Attributes:
        number: position in the order of proposals.
        params: the point.
        value: the objective, the larger the better, or of a pruned point its last value; else None.
        state: `running` points repel new ones of `tpe`, `pruned` ones count as worse than all complete ones, `failed`
            ones teach it nothing; none is proposed again.
        step: for a pruned point how far it got; of two the one that got further counts as better.
    """

    number: int
    params: Mapping[str, Scalar]
    value: float | None
    state: Literal["complete", "running", "failed", "pruned"]
    step: int = 0


def propose(space: SearchSpace, strategy: Strategy, seed: int, history: Sequence[Observation]) -> Point | None:
    """Return the next point, never one of the history, or None when the space is exhausted.

    The same arguments give the same point.

    Raises: ValueError, for a grid over a continuum, or an observation that is not a point of the space or that is
        complete without a finite value.
    """
    history = sorted(history, key=lambda observation: observation.number)
    for observation in history:
        where, value = f"observation {observation.number}", observation.value
        if not space.contains(observation.params):
            params = dict(observation.params)
            raise ValueError(f"{where} has {params}, not a point of the space over {list(space.names)}")
        if observation.state == "complete" and (value is None or not math.isfinite(value)):
            raise ValueError(f"{where} is complete with the value {value}; tell it a finite one, or failed")
    seen = {_key(space, observation.params) for observation in history}
    if STRATEGIES[strategy].is_grid:
        space.grid_size()
    if space.size is not None and len(seen) >= space.size:
        return None
    match strategy:
        case "grid":  # by way of Optuna, which checks the point against the distributions
            point = next(point for point in space.grid() if _key(space, point) not in seen)
            study = new_study(optuna.samplers.RandomSampler())
            study.enqueue_trial({name: point[name] for name in optuna_distributions(space)})
            return _ask(study, space)
        case "random":  # the first unseen point among those that one long random study with this seed would propose
            study = new_study(optuna.samplers.RandomSampler(seed=seed))
            return _ask_unseen(study, space, seed, seen, len(seen) + _MAX_DRAWS)
        case "tpe":
            return _ask_tpe(space, seed, history, seen)
        case _:
            assert_never(strategy)


def _ask_tpe(space: SearchSpace, seed: int, history: Sequence[Observation], seen: set[object]) -> Point | None:
    """Tell Optuna's TPE (multivariate, with constant liar) the history and ask it.

    It has a random state for each proposal; otherwise all proposals before the first result would be equal.
    """
    seed = int.from_bytes(hashlib.sha256(f"{seed}/{len(history)}".encode()).digest()[:4])
    study = new_study(optuna.samplers.TPESampler(seed=seed))
    distributions = optuna_distributions(space)
    for observation in history:
        study.add_trial(
            optuna.create_trial(
                state=_STATES[observation.state],
                value=observation.value if observation.state == "complete" else None,
                intermediate_values=_reported(observation),
                params={name: observation.params[name] for name in distributions},
                distributions=distributions,
            )
        )
    return _ask_unseen(study, space, seed, seen, _MAX_DRAWS)


def _reported(observation: Observation) -> dict[int, float]:
    """Return the value by which Optuna ranks a pruned point, at its step; nothing for others."""
    value = observation.value
    return {} if value is None or observation.state != "pruned" else {observation.step: value}


def _ask_unseen(study: optuna.Study, space: SearchSpace, seed: int, seen: set[object], max_draws: int) -> Point | None:
    """Ask until a point is new; if none is, take the first new one of the grid, from a start that depends on the seed.

    Points that are not new stay running in the study, so that TPE moves away from them. A continuum of which no draw is
    new counts as exhausted: it is as narrow as a few numbers.
    """
    for _ in range(max_draws):
        point = _ask(study, space)
        if _key(space, point) not in seen:
            return point
    if (size := space.size) is None:
        return None
    start = int.from_bytes(hashlib.sha256(str(seed).encode()).digest()) % size
    points = (space.point((start + offset) % size) for offset in range(len(seen) + 1))
    return next(point for point in points if _key(space, point) not in seen)


def new_study(sampler: optuna.samplers.BaseSampler) -> optuna.Study:
    """Return an empty study that maximizes, and silence Optuna's log."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna.create_study(direction="maximize", sampler=sampler)


def _ask(study: optuna.Study, space: SearchSpace) -> Point:
    """Return one point as plain Python values of the space, with its fixed values."""
    drawn = study.ask(optuna_distributions(space)).params
    point: Point = {}
    for name, distribution in space.root.items():
        match distribution:
            case Fixed():
                point[name] = distribution.value
            case Float():
                point[name] = distribution.snap(float(drawn[name]))
            case Int():
                point[name] = int(drawn[name])
            case Categorical():
                point[name] = drawn[name]
            case _:
                assert_never(distribution)
    return point


def optuna_distributions(space: SearchSpace) -> dict[str, BaseDistribution]:
    """Return Optuna's distributions of the parameters that are not fixed."""
    result: dict[str, BaseDistribution] = {}
    for name, distribution in space.root.items():
        match distribution:
            case Float(low=low, high=high, log=log, step=step):
                result[name] = FloatDistribution(low, high, log=log, step=step)
            case Int(low=low, high=high, log=log, step=step):
                result[name] = IntDistribution(low, high, log=log, step=step)
            case Categorical(choices=choices):
                result[name] = CategoricalDistribution(choices)
            case Fixed():
                pass
            case _:
                assert_never(distribution)
    return result


def _key(space: SearchSpace, params: Mapping[str, Scalar]) -> object:
    """Return a key that is equal for equal points; true and 1 differ."""
    return tuple((isinstance(params[name], bool), params[name]) for name in space.names)
