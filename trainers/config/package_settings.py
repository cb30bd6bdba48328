"""Parts of a configuration that installed packages may bring, and the settings of their losses."""

from collections.abc import Mapping
from functools import cache
from typing import Any, cast

from trainers.config import TrainingConfig, WordProblemsTask
from trainers.config.complaints import Settings, settings_of
from trainers.config.reward_config import REWARDS
from trainers.errors import ConfigError
from trainers.extensions import Extensions
from trainers.losses import LOSS_NAMES, LOSSES, ClipParams, loss_entry


def extensible_names(config: TrainingConfig) -> list[tuple[Extensions, str]]:
    """Return the names of the loss and the rewards, which packages may bring, each with its kind."""
    rewards = config.task.rewards if isinstance(config.task, WordProblemsTask) else ()
    return [(LOSS_NAMES, config.loss.name), *((REWARDS, reward.name) for reward in rewards)]


def params_of(name: str) -> type[ClipParams] | None:
    """Return the model of a loss's parameters; None if the name stands for no loss that can be used here."""
    try:
        return loss_entry(name).params
    except ConfigError:
        return None


def with_package_loss(settings: Settings, training: object) -> Settings:
    """Return the settings of a training together with those of the loss of a package that a document names.

    Args:
        training: a training configuration as it was written, right or wrong.
    """
    loss = cast("Mapping[str, Any]", training).get("loss") if isinstance(training, Mapping) else None
    name = cast("Mapping[str, Any]", loss).get("name") if isinstance(loss, Mapping) else None
    if not isinstance(name, str) or name in LOSSES:
        return settings
    params = params_of(name)
    return settings if params is None else _joined(settings, params)


@cache
def _joined(settings: Settings, params: type[ClipParams]) -> Settings:
    owners = {dotted: [*tags] for dotted, tags in settings.owners.items()}
    for dotted, tags in settings_of(params).owners.items():
        owners.setdefault(f"loss.{dotted}", []).extend(tags)
    return Settings(owners, around=settings.around)
