"""Reads a spec from a file of YAML or JSON."""

import sys
from pathlib import Path
from typing import Any

from sweep_service.errors import InvalidSpec, ServiceError, SpecError
from trainers.yaml_text import MAX_CHARACTERS, YamlError, read_yaml, read_yaml_file


class SpecFileError(ServiceError):
    """The file of the spec cannot be read, or is not valid YAML."""


def read_spec(path: str) -> Any:
    """Return the content of a file; `-` is standard input.

    Raises: SpecFileError, if it cannot be read or is not valid YAML; InvalidSpec, if it is empty.
    """
    name = "standard input" if path == "-" else path
    try:
        value = read_yaml(sys.stdin.read(MAX_CHARACTERS + 1), name) if path == "-" else read_yaml_file(Path(path))
    except YamlError as error:
        raise SpecFileError(str(error)) from error
    except (OSError, UnicodeError) as error:
        raise SpecFileError(f"cannot read {name}: {getattr(error, 'strerror', None) or error}") from error
    if value is None:
        raise InvalidSpec([SpecError("", f"{name} is empty; a sweep is a mapping with name, training, space, …")])
    return value
