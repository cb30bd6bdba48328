"""Every setting of a configuration, found in its JSON schema."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple, cast

from pydantic import BaseModel

_GROUP: Final = "a group"
_KINDS: Final = {
    "integer": "whole number",
    "number": "number",
    "boolean": "true, false",
    "string": "text",
    "array": "a list",
    "object": "a mapping",
    "null": "null",
}
_BOUNDS: Final = {"minimum": ">=", "exclusiveMinimum": ">", "maximum": "<=", "exclusiveMaximum": "<"}


class SettingSchema(NamedTuple):
    """A setting, or a group of them; in a group with variants each one that has the setting gives one."""

    name: str
    """Dotted name; `[]` stands for the entries of a list."""
    variant: str | None
    """Tag of the variant that has it, such as a loss's name."""
    schema: Mapping[str, Any]
    required: bool


class SettingFacts(NamedTuple):
    """Description of a setting for somebody who wants to change it."""

    name: str
    """Dotted name, as in `SettingSchema`."""
    default: str
    """Default in YAML; `required` where a value must be given, empty for a short form of other settings."""
    allowed: str
    variants: str
    """Tags of the variants that have the setting so; empty where its group has none."""
    meaning: str


def setting_schemas(model: type[BaseModel]) -> Iterator[SettingSchema]:
    """Yield all settings of a model, each group before its settings."""
    schema = model.model_json_schema()

    def inside(node: Mapping[str, Any], prefix: str) -> Iterator[SettingSchema]:
        if "$ref" in node:
            node = schema["$defs"][node["$ref"].rpartition("/")[2]]
        properties: Mapping[str, Any] = node.get("properties", {})
        tags = (properties.get(name, {}).get("const") for name in ("name", "mode", "rule"))
        variant = next(filter(None, tags), None)
        for name, inner in properties.items():
            yield SettingSchema(prefix + name, variant, inner, name in node.get("required", ()))
            yield from inside(inner, f"{prefix}{name}.")
        for option in (*node.get("oneOf", ()), *node.get("anyOf", ())):
            yield from inside(option, prefix)
        if "items" in node:
            yield from inside(node["items"], f"{prefix.removesuffix('.')}[].")

    return inside(schema, "")


def setting_facts(model: type[BaseModel]) -> list[SettingFacts]:
    """Return the facts of a model's settings; a setting that several variants have alike comes once."""
    variants, tags, defaults = dict[SettingFacts, list[str]](), dict[str, list[str]](), dict[str, Any]()
    schemas = list(setting_schemas(model))
    for name, variant, schema, required in schemas:
        if isinstance(whole := schema.get("default"), dict):
            defaults |= {f"{name}.{inner}": value for inner, value in cast("dict[str, Any]", whole).items()}
        if "const" in schema:
            tags.setdefault(name, []).append(schema["const"])
        elif name not in tags and (allowed := _allowed(schema)) != _GROUP:  # in tags: the name of a package's loss
            default = "required" if required else _written(schema["default"]) if "default" in schema else ""
            facts = SettingFacts(name, default, allowed, "", schema.get("description", ""))
            variants.setdefault(facts, []).extend([variant] if variant else [])
    rows = [facts._replace(variants=_listed(names)) for facts, names in variants.items()]
    rows += [SettingFacts(name, defaults.get(name, "required"), _listed(of), "", "") for name, of in tags.items()]
    order = {name: place for place, name in enumerate(dict.fromkeys(one.name for one in schemas))}
    return sorted(rows, key=lambda row: order[row.name])


def _listed(names: list[str]) -> str:
    return ", ".join(dict.fromkeys(names))


def _allowed(schema: Mapping[str, Any]) -> str:
    """Return in a few words which values a setting takes."""
    if options := (*schema.get("oneOf", ()), *schema.get("anyOf", ())):
        return " or ".join(dict.fromkeys(map(_allowed, options)))
    if "const" in schema or "enum" in schema:
        return ", ".join(schema.get("enum") or [schema["const"]])
    bounds = ", ".join(f"{sign} {_written(schema[key])}" for key, sign in _BOUNDS.items() if key in schema)
    return f"{_KINDS.get(schema.get('type', ''), _GROUP)} {bounds}".strip()


def _written(value: object) -> str:
    """Write a default as YAML has it; a group's stand at its settings."""
    if isinstance(value, dict):
        return "below" if value else "{}"
    if isinstance(value, float):
        return f"{value:g}"
    return json.dumps(value) if value is None or isinstance(value, bool) or "\n" in str(value) else str(value)
