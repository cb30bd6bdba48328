"""YAML with a remark beside each line that wants one."""

import json
import re
from collections.abc import Mapping
from typing import Any, Final

_REMARK_COLUMN: Final = 42
_PLAIN: Final = re.compile(r"^[a-z][a-z0-9._-]*$")
_NOT_TEXT: Final = {"null", "true", "false", "yes", "no", "on", "off", "y", "n"}


def write_yaml(document: Mapping[str, Any], remarks: Mapping[str, str]) -> str:
    """Return the document in its own order, mappings of one level in braces where `remarks` has them as a whole.

    Args:
        remarks: by dotted name, for single settings and for whole mappings.
    """
    lines = list[str]()

    def walk(node: Mapping[str, Any], prefix: str, indent: str) -> None:
        for key, value in node.items():
            name = prefix + key
            if isinstance(value, Mapping) and name not in remarks:
                lines.append(f"{indent}{key}:")
                walk(value, f"{name}.", indent + "  ")
            else:
                line = f"{indent}{key}: {scalar(value)}"
                lines.append(f"{line + '  ':<{_REMARK_COLUMN}}# {remarks[name]}" if remarks.get(name) else line)

    walk(document, "", "")
    return "\n".join(lines) + "\n"


def scalar(value: Any) -> str:
    """Return a value on one line, as YAML 1.1 and 1.2 both read it."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {scalar(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(scalar, value)) + "]"
    if isinstance(value, float):
        mantissa, exponent, power = repr(value).partition("e")
        return mantissa if not exponent else f"{mantissa if '.' in mantissa else mantissa + '.0'}e{int(power):+d}"
    if isinstance(value, str) and _PLAIN.match(value) and value not in _NOT_TEXT:
        return value
    return json.dumps(value)
