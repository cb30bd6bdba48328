"""The baselines of a config: the same training with PPO clip's gradient, or with DAPO's clip-higher. Pure.

Both keep all of a training but its loss: task, model, rollout, optimizer, aggregation and further terms. A matched
baseline is a chosen config's training with PPO clip's gradient.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from search_spaces.space import SearchSpace
from sweep_service.sweep.own_trainer import Trained
from sweep_service.sweep.spec import SweepSpec
from trainers.config import TrainingConfig
from trainers.config.package_settings import params_of
from trainers.losses import LOSSES

BOUND_TOKEN_RATIOS: Final = frozenset({"grpo", "dapo", "gppo", "ce_gppo", "bapo"})
"""Losses whose epsilons bound the ratio of one token, as PPO's do, so that PPO clip can take them over.

bapo's are where its bounds begin. Other epsilons mean something else: cispo's cap a weight, gspo's bound a sequence's
mean ratio (3e-4), dcpo's a change of probability, clip_cov's never bind (1), and kl_cov has none. As the baseline of
these losses PPO clip uses its own 0.2. A package's loss is one of these if its params have `clips_like_ppo`, which no
class of ours has: a loss that is derived from ours may bound something else.
"""
_BETAS: Final = frozenset({"loss.beta1", "loss.beta2"})
_CLIP_SETTINGS: Final = ("epsilon_low", "epsilon_high", "dual_clip", "log_ratio_clamp")


def clipped(training: TrainingConfig) -> TrainingConfig:
    """Return the same training with PPO clip's gradient.

    That is ce_gppo without betas, dapo without entropy-ratio clipping, and grpo in place of all others.
    """
    if training.loss.name == "ce_gppo":
        return _with_loss(training, without_betas(training.loss.model_dump()))
    name = "dapo" if training.loss.name == "dapo" else "grpo"
    return _with_loss(training, {"name": name, **_bounds(training, _CLIP_SETTINGS)})


def clipped_loss(loss: Mapping[str, Any]) -> dict[str, Any]:
    """Return PPO clip's loss in place of a loss given as JSON.

    Raises: ValidationError, for the loss of another version.
    """
    if loss.get("name") == "ce_gppo":
        return without_betas(loss)
    return clipped(TrainingConfig.model_validate({"loss": loss})).loss.model_dump(mode="json")


def without_betas(loss: Mapping[str, Any]) -> dict[str, Any]:
    """Return a ce_gppo loss, as JSON, that passes no gradient beyond its clip range: PPO clip's."""
    return {**loss, "beta1": 0.0, "beta2": 0.0, "schedule": [], "erc": None}


def clip_higher(training: TrainingConfig) -> TrainingConfig:
    """Return the same training with DAPO's loss: its own upper bound, the training's lower one."""
    return _with_loss(training, {"name": "dapo", **_bounds(training, ("epsilon_low",))})


def bound_token_ratios(loss: str) -> bool:
    """True if PPO clip can take over a loss's epsilons."""
    if loss in LOSSES:
        return loss in BOUND_TOKEN_RATIOS
    params = params_of(loss)
    return params is not None and params.clips_like_ppo


def _bounds(training: TrainingConfig, names: tuple[str, ...]) -> dict[str, Any]:
    if not bound_token_ratios(training.loss.name):
        return {}
    return {name: getattr(training.loss, name) for name in names if name in type(training.loss).model_fields}


def _with_loss(training: TrainingConfig, loss: dict[str, Any]) -> TrainingConfig:
    return TrainingConfig.model_validate(training.model_dump() | {"loss": loss})


def rough_count(spec: SweepSpec, chosen: int) -> int:
    """Return how many matched baselines a sweep trains at most, from the names of its space alone."""
    if not spec.baselines.matched:
        return 0
    return min(1, chosen) if set(spec.space.varied) <= _BETAS else chosen


def matched_count(spec: SweepSpec, comparators: Sequence[Trained], chosen: int) -> int:
    """Return how many matched baselines a sweep trains at most beside the configs that it confirms anyway.

    They differ in the settings that the space varies, except those of the loss that PPO clip drops: where only betas
    vary, all of them are the baseline. One for each chosen config is the most, and none for a point that is PPO clip
    itself.

    Args:
        comparators: trainings of the baselines that are confirmed, which differ from the base in the loss alone.
        chosen: number of configs that tuning chooses.
    """
    if not spec.baselines.matched:
        return 0
    losses = _matched_losses(spec)
    if losses is None:
        return chosen
    others = SearchSpace({name: values for name, values in spec.space.root.items() if not _is_loss(name)})
    settings = math.inf if others.size is None else others.size
    base = spec.at({}).params
    base_is_there = others.contains({name: base[name] for name in others.names})
    trainings = [training for training in comparators if isinstance(training, TrainingConfig)]
    present = losses & set(map(_loss, trainings)) if base_is_there else set[str]()
    return int(min(chosen, len(losses) * settings - len(present)))


def _matched_losses(spec: SweepSpec) -> set[str] | None:
    """Return the losses of matched baselines, of points that are not PPO clip; None if they are too many to count."""
    space = SearchSpace({name: values for name, values in spec.space.root.items() if _is_loss(name)})
    first, corners = next(spec.space.corners()), list(space.corners())
    losses = set[str]()
    for corner in corners:
        training = spec.bind({**first, **corner})
        loss = _loss(clipped(training))
        if loss != _loss(training):
            losses.add(loss)
    return losses if len(losses) < 2 or len(corners) == space.size else None


def _is_loss(name: str) -> bool:
    return f"{name}.".startswith("loss.")


def _loss(training: TrainingConfig) -> str:
    return training.loss.model_dump_json()
