"""The rewards that judge completions of word problems, their weights and their own settings."""

import json
from collections.abc import Iterator, Mapping
from copy import deepcopy
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Final, cast

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag, ValidationError

from trainers.config.base import CatalogName, Frozen
from trainers.errors import ConfigError
from trainers.extensions import Extensions, package

REWARDS: Final = Extensions(
    kind="reward",
    setting="task.reward",
    group="sweeps.rewards",
    ours={
        "exact": "trainers.rewards.exact:ExactReward",
        "expression": "trainers.rewards.expression:ExpressionReward",
        "math": "trainers.rewards.math:MathReward",
        "number": "trainers.rewards.number:NumberReward",
    },
)


class RewardSettings(Frozen):
    """Base of a reward's own settings: immutable; unknown names, NaN and truth values for numbers are refused."""


class RewardConfig(Frozen):
    """A reward by name, with a weight; all else are settings of the reward itself.

    They are checked by the reward's own model where its package is installed; elsewhere the trainer refuses the run.
    """

    model_config = ConfigDict(extra="allow")

    own_names: ClassVar[frozenset[str]] = frozenset({"name", "weight"})
    """Names that no setting of a reward can have."""

    name: CatalogName
    weight: float = Field(default=1.0, ge=-1e6, le=1e6, description="Factor on the reward in the sum of all.")

    @property
    def settings(self) -> dict[str, Any]:
        """The reward's own settings, as they were written."""
        return dict(self.model_extra or {})

    def _refusals(self) -> Iterator[str]:
        for name, value in self.settings.items():
            try:
                json.dumps(value, allow_nan=False)
            except (TypeError, ValueError) as error:
                yield f"{name} {value!r:.60} cannot be written as JSON: {error}; give a plain value"
                return
        if (self.settings or self.name not in REWARDS.ours) and self.name in REWARDS.names():
            try:
                reward_settings(self.name, self.settings)
            except ConfigError as error:
                yield str(error)


def reward_settings(name: str, given: Mapping[str, Any]) -> BaseModel | None:
    """Return all settings of an installed reward, with its defaults; None if it has none.

    Raises: ConfigError, if there is no such reward, or it cannot be loaded, or takes no settings; pydantic's
        ValidationError, if its model refuses them.
    """
    model = _model(name)
    if model is None:
        if given:
            raise ConfigError(f"the reward {name} has no settings; remove {', '.join(given)}")
        return None
    fields = model.model_fields
    if model.model_config.get("extra") != "allow" and (unknown := [key for key in given if key not in fields]):
        raise ConfigError(
            f"the reward {name} has no setting {' or '.join(unknown)}; it has {', '.join(fields) or 'none'}"
        )
    try:
        settings = model.model_validate(deepcopy(dict(given)))
        json.dumps(settings.model_dump(mode="json"), allow_nan=False)
    except ValidationError:
        raise
    except (Exception, SystemExit) as error:  # whatever code of a package does
        reason = f"{type(error).__name__}: {error}"
        raise ConfigError(f"the settings of the reward {name} cannot be read and written as JSON: {reason}") from error
    return settings


@lru_cache(maxsize=100)
def _model(name: str) -> type[BaseModel] | None:
    """Return the model of a reward's settings, which its class holds as `Settings`; None if it has none."""
    entry = REWARDS.entry(name)
    try:
        model = getattr(entry.load(), "Settings", None)
    except (Exception, SystemExit) as error:  # whatever code of a package does
        raise ConfigError(
            f"the reward {name!r} of {package(entry)} ({entry.value}) cannot be loaded: {type(error).__name__}: {error}"
        ) from error
    if model is None:
        return None
    place = f"Settings of the reward {name!r} of {package(entry)}"
    if not (isinstance(model, type) and issubclass(model, BaseModel)):
        raise ConfigError(f"{place} must be a class of pydantic's BaseModel")
    if renamed := [key for key, field in model.model_fields.items() if field.validation_alias or field.alias]:
        raise ConfigError(
            f"{place} gives {' and '.join(renamed)} another name by an alias; give the field itself the name that "
            "specs use"
        )
    if taken := sorted(RewardConfig.own_names & model.model_fields.keys()):
        raise ConfigError(f"{place} has {' and '.join(taken)}, which every reward has; rename it")
    return model


def _shortest(reward: str | RewardConfig) -> str | RewardConfig:
    """Return the name alone of a reward that says no more, so that one training has one config."""
    return reward.name if isinstance(reward, RewardConfig) and reward == RewardConfig(name=reward.name) else reward


def _name_or_mapping(value: object) -> object:
    if not isinstance(value, str | Mapping | RewardConfig):
        raise ValueError("give a reward's name, or {name: …} with its settings")
    return cast("object", value)


NamedReward = Annotated[
    Annotated[CatalogName, Tag("a name")] | Annotated[RewardConfig, Tag("a mapping")],
    Discriminator(lambda value: "a name" if isinstance(value, str) else "a mapping"),  # no setting has such a name
    BeforeValidator(_name_or_mapping),
    AfterValidator(_shortest),
]
"""A reward's name alone, or its name with its settings."""


_BY_NAME: Final = "a mapping is needed: rewards stand here by their names, as in {brief: {weight: 0.2}}"


def _with_names(value: object) -> object:
    """Give each reward the name under which it stands."""
    if not isinstance(value, Mapping):
        raise ValueError(_BY_NAME)
    parts = cast("Mapping[object, object]", value)
    return {name: {"name": name, **part} if isinstance(part, Mapping) else part for name, part in parts.items()}


def _of_one(value: object) -> object:
    if not isinstance(value, Mapping | RewardConfig):
        raise ValueError(_BY_NAME)
    return cast("object", value)


def _named_alike(rewards: dict[str, RewardConfig]) -> dict[str, RewardConfig]:
    for name, reward in rewards.items():
        if reward.name != name:
            raise ValueError(f"{name} has the name {reward.name}; leave the inner name out")
    return rewards


FurtherRewards = Annotated[
    dict[CatalogName, Annotated[RewardConfig, BeforeValidator(_of_one)]],
    Field(max_length=20),
    BeforeValidator(_with_names),
    AfterValidator(_named_alike),
]
"""Rewards by their names; each may be written without its name."""
