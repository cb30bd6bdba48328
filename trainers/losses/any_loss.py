"""`AnyLoss`, the type of a field that takes the parameters of one of our losses or of an installed package's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final, cast

from pydantic import Discriminator
from pydantic_core import PydanticCustomError, core_schema

from trainers.errors import ConfigError
from trainers.losses.base import LossParams
from trainers.losses.by_name import LOSS_NAMES, loss_entry
from trainers.losses.table import LOSSES, LossConfig

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
    from pydantic_core import CoreSchema

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
    name = _name(value)
    if name is None:
        return ours(value)
    try:
        entry = loss_entry(name)
    except ConfigError as error:
        if LOSS_NAMES.unknown(name):
            raise _unknown(name) from error
        reason = str(error).removeprefix(f"{LOSS_NAMES.setting}: ")
        raise PydanticCustomError("loss_unusable", "{reason}", {"reason": reason}) from error
    return ours(value) if name in LOSSES else entry.params.model_validate(value)


def _name(value: object) -> str | None:
    if isinstance(value, Mapping):
        name = cast("Mapping[str, object]", value).get("name")
    else:
        name = getattr(value, "name", None) if isinstance(value, LossParams) else None
    return name if isinstance(name, str) else None


def _unknown(name: str) -> PydanticCustomError:
    known = ", ".join(f"'{one}'" for one in (*LOSSES, *sorted(set(LOSS_NAMES.names()) - set(LOSSES))))
    return PydanticCustomError(
        "loss_unknown",
        "there is no loss '{tag}'; there are {expected_tags} on this machine, and a package adds its own by an entry "
        "point of the group {group}",
        {"tag": name, "expected_tags": known, "group": LOSS_NAMES.group},
    )
