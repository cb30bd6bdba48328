"""Policy losses by name: ours, and those that installed packages add by entry points of the group `sweeps.losses`.

docs/losses.md has a complete package with a loss. `AnyLoss` is the type of a field that takes the parameters of either.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Final, cast

from pydantic import Discriminator
from pydantic_core import PydanticCustomError, core_schema

from trainers.errors import ConfigError
from trainers.extensions import Extensions, package
from trainers.losses.base import ClipParams
from trainers.losses.entry import entry_fault, output_fault
from trainers.losses.table import LOSSES, LossConfig

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
    from pydantic_core import CoreSchema

    from trainers.losses.base import LossOutput
    from trainers.losses.batch import TokenBatch
    from trainers.losses.entry import LossEntry

LOSS_NAMES: Final = Extensions(
    kind="policy loss",
    setting="loss.name",
    group="sweeps.losses",
    ours={name: f"{entry.function.__module__}:{entry.function.__name__}" for name, entry in LOSSES.items()},
)
"""All losses of this machine by name: ours, and those of installed packages."""


@cache
def loss_entry(name: str) -> LossEntry:
    """Return the loss with this name. A package's is imported now, and stays the same in this process.

    Raises: ConfigError, if there is none or more than one; with package and remedy, if it cannot be used.
    """
    entry_point = LOSS_NAMES.entry(name)
    if name in LOSSES:
        return LOSSES[name]
    entry = _loaded(entry_point)
    if isinstance(entry, str):
        raise ConfigError(
            f"loss.name: the loss {name!r} of {package(entry_point)} ({entry_point.value}) cannot be used: {entry}"
        )
    return entry


@cache
def _loaded(entry_point: EntryPoint) -> LossEntry | str:
    """Import what an entry point names; return why it cannot be used, which stays so in this process."""
    had_torch = "torch" in sys.modules
    try:
        entry = cast("object", entry_point.load())
    except (Exception, SystemExit) as error:  # noqa: BLE001 a package may raise anything
        return f"{type(error).__name__}: {error}; correct it, or install what it needs, or uninstall it"
    if not had_torch and "torch" in sys.modules:
        return (
            "importing it imports torch, which must not happen where configurations are only validated; import torch "
            "inside the function, and for annotations under TYPE_CHECKING"
        )
    return entry_fault(entry, entry_point.name) or cast("LossEntry", entry)


def policy_loss(batch: TokenBatch, params: LossConfig) -> LossOutput:
    """Compute the per-token loss (B, T) that `params.name` stands for, with the region masks.

    Raises: ConfigError, if the loss of a package returns something else than its contract says.
    """
    if params.name in LOSSES:
        return LOSSES[params.name].function(batch, params)
    output = loss_entry(params.name).function(batch, params)
    if fault := output_fault(output, batch):
        owner = package(LOSS_NAMES.entry(params.name))
        raise ConfigError(
            f"loss.name: {params.name!r} of {owner} returned {fault}; correct it, and test it with "
            "trainers.losses.contract"
        )
    return output


_OF_A_PACKAGE: Final[dict[str, Any]] = {
    "title": "LossOfAPackage",
    "description": "A loss that an installed package adds, by its name, with the settings that the package gives it.",
    "type": "object",
    "properties": {"name": {"type": "string", "not": {"enum": list(LOSSES)}}},
    "required": ["name"],
}


class _OrOfAPackage:
    """Marks the union of our losses as one that takes those of packages, too, each read by its own model."""

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Choose by name, and write any loss by its own model."""
        return core_schema.no_info_wrap_validator_function(
            _read, handler(source), serialization=core_schema.simple_ser_schema("any")
        )

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """Describe ours in full, and leave the settings of others open."""
        return {"anyOf": [handler(core), _OF_A_PACKAGE]}


AnyLoss = Annotated[LossConfig, Discriminator("name"), _OrOfAPackage()]
"""Type checkers see the union of ours; the loss of a package is a `ClipParams` of its own, with a `name`."""


def _read(value: object, ours: core_schema.ValidatorFunctionWrapHandler) -> object:
    """Validate a loss by the model that its name stands for; a package is imported only for a loss of its own."""
    if isinstance(value, Mapping):
        name = cast("Mapping[str, object]", value).get("name")
    else:
        name = getattr(value, "name", None) if isinstance(value, ClipParams) else None
    if not isinstance(name, str):
        return ours(value)
    try:
        entry = loss_entry(name)
    except ConfigError as error:
        if LOSS_NAMES.unknown(name):
            names = ", ".join(f"'{each}'" for each in (*LOSSES, *sorted(set(LOSS_NAMES.names()) - set(LOSSES))))
            raise PydanticCustomError(
                "loss_unknown",
                "there is no loss '{tag}'; there are {expected_tags} on this machine, and a package adds its own by an "
                "entry point of the group {group}",
                {"tag": name, "expected_tags": names, "group": LOSS_NAMES.group},
            ) from error
        reason = str(error).removeprefix(f"{LOSS_NAMES.setting}: ")
        raise PydanticCustomError("loss_unusable", "{reason}", {"reason": reason}) from error
    return ours(value) if name in LOSSES else entry.params.model_validate(value)
