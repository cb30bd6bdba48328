"""Matched baselines: a chosen config's training with PPO clip's gradient, and how many of them a sweep has. Pure."""

import math
from collections.abc import Sequence
from typing import Final

from search_spaces.space import SearchSpace
from sweep_service.sweep.baselines import clipped
from sweep_service.sweep.own_trainer import Trained
from sweep_service.sweep.records import Config
from sweep_service.sweep.spec import SweepSpec
from trainers.config import TrainingConfig

_BETAS: Final = frozenset({"loss.beta1", "loss.beta2"})


def matched_training(config: Config) -> TrainingConfig:
    """Return the training of a config's matched baseline."""
    return clipped(TrainingConfig.model_validate(config.training))


def rough_count(spec: SweepSpec, chosen: int) -> int:
    """Return how many matched baselines a sweep trains at most, from the names of its space alone."""
    if not spec.baselines.matched:
        return 0
    return min(1, chosen) if set(spec.space.varied) <= _BETAS else chosen


def matched_count(spec: SweepSpec, comparators: Sequence[Trained], chosen: int) -> int:
    """Return how many matched baselines a sweep trains at most beside the configs that it confirms anyway.

    They differ in what points of the space differ in, but for what PPO clip drops of their losses: where only betas
    vary, all of them are the baseline. One for each chosen config is the most, and none for a point that is PPO clip
    itself.

    Args:
        comparators: trainings of the baselines that are confirmed, which differ from the base in the loss alone.
        chosen: how many configs tuning chooses.
    """
    if not spec.baselines.matched:
        return 0
    losses = _matched_losses(spec)
    if losses is None:
        return chosen
    others = {name: values for name, values in spec.space.root.items() if not _is_loss(name)}
    sizes = [values.size for values in others.values()]
    settings = math.inf if None in sizes else math.prod(size for size in sizes if size is not None)
    base = spec.at({}).params
    base_is_there = all(values.contains(base[name]) for name, values in others.items())
    ours = [training for training in comparators if isinstance(training, TrainingConfig)]
    present = losses & set(map(_loss, ours)) if base_is_there else set[str]()
    return int(min(chosen, len(losses) * settings - len(present)))


def _matched_losses(spec: SweepSpec) -> set[str] | None:
    """Return the losses of matched baselines, of points that are not PPO clip; None if they are too many to count."""
    space = SearchSpace({name: values for name, values in spec.space.root.items() if _is_loss(name)})
    first, corners = next(spec.space.corners()), list(space.corners())
    found = set[str]()
    for corner in corners:
        training = spec.bind({**first, **corner})
        loss = _loss(clipped(training))
        if loss != _loss(training):
            found.add(loss)
    return found if len(found) < 2 or len(corners) == space.size else None


def _is_loss(name: str) -> bool:
    return f"{name}.".startswith("loss.")


def _loss(training: TrainingConfig) -> str:
    return training.loss.model_dump_json()
