"""Turns errors of a configuration into sentences, with the names that the document uses."""

import difflib
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final, NamedTuple

from pydantic import BaseModel, ValidationError

from trainers.config.base import NAME_RULE


class Complaint(NamedTuple):
    """One thing that is wrong; `path` leads to it in the document, and is empty for the document as a whole."""

    path: tuple[str, ...]
    detail: str


def complaints(error: ValidationError, raw: object, settings: Mapping[str, Sequence[str]]) -> list[Complaint]:
    """Turn pydantic's errors into sentences.

    Args:
        raw: document that was validated.
        settings: all settings there are, from `settings_of`.
    """
    unique: dict[Complaint, None] = {}  # a union of plain types complains once for each of them
    for item in error.errors(include_url=False):
        path = _path_in(raw, item["loc"], item["type"] == "missing")
        if item["type"] == "extra_forbidden":
            detail = _unknown(path, settings)
        else:
            plainer = _PLAIN_VALUE if item["loc"][-1:] in _PLAIN_TYPES else _PLAINER.get(item["type"])
            detail = plainer.format(**item.get("ctx", {})) if plainer else item["msg"].removeprefix("Value error, ")
            value = item.get("input")
            if isinstance(value, str | int | float):
                detail += f" (given: {str(value)[:100]})"
                if item["type"] == "string_pattern_mismatch" and "/" in str(value):
                    detail += _NO_PATH
        unique[Complaint(path, detail)] = None
    return list(unique)


_PLAIN_TYPES: Final = (("bool",), ("int",), ("float",), ("str",))
_PLAIN_VALUE: Final = "a number, a text, true, false or null is needed"
_NO_PATH: Final = "; models and data are named as in the catalog: `sweeps models add`, `sweeps models ls`"
_PLAINER: Final = {
    "missing": "this is required",
    "too_short": "at least one value is needed",
    "tuple_type": "a list is needed",
    "model_attributes_type": "a mapping is needed",
    "model_type": "a mapping is needed",
    "union_tag_not_found": "{discriminator} is missing, which says what the rest means",
    "union_tag_invalid": "there is no {discriminator} '{tag}'; there are {expected_tags}",
    "string_pattern_mismatch": NAME_RULE,
}


@cache
def settings_of(model: type[BaseModel]) -> Mapping[str, Sequence[str]]:
    """Return the dotted names of all settings, each with the tags of the variants that have it (such as losses)."""
    schema = model.model_json_schema()
    settings: dict[str, list[str]] = {}

    def walk(node: dict[str, Any], prefix: str) -> None:
        if "$ref" in node:
            node = schema["$defs"][node["$ref"].rpartition("/")[2]]
        properties: dict[str, Any] = node.get("properties", {})
        owner = next((properties[tag]["const"] for tag in ("name", "mode") if "const" in properties.get(tag, {})), None)
        for name, inner in properties.items():
            settings.setdefault(prefix + name, []).extend([owner] if owner else [])
            walk(inner, f"{prefix}{name}.")
        for option in (*node.get("oneOf", ()), *node.get("anyOf", ())):
            walk(option, prefix)

    walk(schema, "")
    return settings


def _path_in(raw: object, location: tuple[int | str, ...], missing: bool) -> tuple[str, ...]:
    """Drop from pydantic's location everything that is not in the document: tags of unions, fields of short forms.

    `missing` says that the last part is a key that the document lacks.
    """
    path: list[str] = []
    for index, part in enumerate(location):
        if isinstance(raw, Mapping) and (part in raw or (missing and index == len(location) - 1)):
            raw = raw.get(part)
        elif isinstance(raw, list | tuple) and isinstance(part, int) and part < len(raw):
            raw = raw[part]
        else:
            continue
        path.append(str(part))
    return tuple(path)


def _unknown(path: Sequence[str], settings: Mapping[str, Sequence[str]]) -> str:
    """Say that there is no such setting, and which one is probably meant."""
    if owners := settings.get(".".join(path)):
        return f"only {', '.join(dict.fromkeys(owners))} {'have' if len(set(owners)) > 1 else 'has'} this setting"
    elsewhere = [dotted for dotted in settings if dotted.rpartition(".")[2] == path[-1]]
    names = sorted({dotted.rpartition(".")[2] for dotted in settings})
    if close := elsewhere or difflib.get_close_matches(path[-1], names, n=1):
        return f"there is no such setting; did you mean {close[0]!r}?"
    beside = [dotted for dotted in settings if dotted.split(".")[:-1] == list(path[:-1])]
    return "there is no such setting" + (f"; there are {', '.join(beside)}" if beside else "")
