"""The baselines of a config: the same training with PPO clip's gradient, or with DAPO's clip-higher. Pure.

Both keep all of a training but its loss: task, model, rollout, optimizer, aggregation and further terms.
"""

from collections.abc import Mapping
from typing import Any, Final

from trainers.config import TrainingConfig
from trainers.config.package_settings import params_of
from trainers.losses import LOSSES

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
    """Return PPO clip's loss in place of one that is JSON.

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
    """True if a loss's epsilons bound the ratio of one token, as PPO's do, so that PPO clip can take them over.

    bapo's are where its bounds begin. Other epsilons mean something else: cispo's cap a weight, gspo's bound a
    sequence's mean ratio (3e-4), dcpo's a change of probability, clip_cov's never bind (1), and kl_cov has none. As the
    baseline of these losses PPO clip uses its own 0.2.
    """
    params = LOSSES[loss].params if loss in LOSSES else params_of(loss)
    return params is not None and params.clips_like_ppo


def _bounds(training: TrainingConfig, names: tuple[str, ...]) -> dict[str, Any]:
    if not bound_token_ratios(training.loss.name):
        return {}
    return {name: getattr(training.loss, name) for name in names if name in type(training.loss).model_fields}


def _with_loss(training: TrainingConfig, loss: dict[str, Any]) -> TrainingConfig:
    return TrainingConfig.model_validate(training.model_dump() | {"loss": loss})
