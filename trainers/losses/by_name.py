"""Policy losses by name: ours, and those that installed packages add by entry points of the group `sweeps.losses`.

docs/losses.md has a complete package with a loss. `AnyLoss` is the type of a field that takes the parameters of either.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Final, cast

from pydantic import Discriminator, SerializeAsAny, ValidatorFunctionWrapHandler, WithJsonSchema, WrapValidator
from pydantic_core import PydanticCustomError

from trainers.errors import ConfigError
from trainers.extensions import Extensions, package
from trainers.losses.base import ClipParams
from trainers.losses.entry import entry_fault, output_fault
from trainers.losses.table import LOSSES, LossConfig

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

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


def _read(value: object, ours: ValidatorFunctionWrapHandler) -> object:
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


_Ours = Annotated[LossConfig, Discriminator("name")]
_OfAPackage = Annotated[
    Mapping[str, Any],
    WithJsonSchema(
        {
            "title": "LossOfAPackage",
            "description": "A loss that an installed package adds, by its name, with the settings that the package "
            "gives it.",
            "type": "object",
            "properties": {"name": {"type": "string", "not": {"enum": list(LOSSES)}}},
            "required": ["name"],
        }
    ),
]
AnyLoss = Annotated[SerializeAsAny[_Ours], WrapValidator(_read, json_schema_input_type=_Ours | _OfAPackage)]
"""One of our losses, or a package's, read and written by its own model; the schema leaves a package's settings open.

Type checkers see the union of ours; the loss of a package is a `ClipParams` of its own, with a `name`.
"""
