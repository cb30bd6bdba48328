"""Reads a spec from YAML, of which JSON is a part, strictly."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import yaml

from sweep_service.errors import InvalidSpec, ServiceError, SpecError

_FLOAT = re.compile(r"^[-+]?(\d+(\.\d*)?|\.\d+)[eE][-+]?\d+$")


class SpecFileError(ServiceError):
    """The file of the spec cannot be read, or is not valid YAML."""


class _Loader(yaml.SafeLoader):
    """Safe YAML without its surprises: 1e-5 is a number, a date is text, and no key may appear twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]  # pyright: ignore[reportUnknownVariableType]
        for index, key in enumerate(keys):
            if key in keys[:index]:
                mark = node.value[index][0].start_mark
                raise SpecFileError(f"{mark.name}, line {mark.line + 1}: the key {key!r} appears twice")
        return super().construct_mapping(node, deep)


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver("tag:yaml.org,2002:float", _FLOAT, list("-+.0123456789"))


def read_spec(path: str) -> Any:
    """Return the content of a file; `-` is standard input.

    Raises: SpecFileError, if it cannot be read or is not valid YAML; InvalidSpec, if JSON has no such values.
    """
    try:
        text = sys.stdin.read() if path == "-" else Path(path).read_text()
    except (OSError, UnicodeError) as error:
        raise SpecFileError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from error
    return parse_yaml(text, "standard input" if path == "-" else path)


def parse_yaml(text: str, name: str = "the text") -> Any:
    """Return the content of a YAML text; raises as `read_spec`, with `name` for the file."""
    try:
        loader = _Loader(text)
        loader.name = name
        value = loader.get_single_data()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise SpecFileError(f"{name}{place}: not valid YAML: {error.problem}") from error
    except yaml.YAMLError as error:
        raise SpecFileError(f"{name}: not valid YAML: {error}") from error
    if value is None:
        raise InvalidSpec([SpecError("", f"{name} is empty; a sweep is a mapping with name, training, space, …")])
    try:
        json.dumps(value, allow_nan=False)
    except (ValueError, TypeError) as error:
        raise InvalidSpec([SpecError("", f"{name} has a value that JSON has not: {error}")]) from error
    return value
