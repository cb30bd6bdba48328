"""Reads a spec from a file of YAML or JSON."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from sweep_service.errors import InvalidSpec, ServiceError, SpecError
from trainers.yaml_text import MAX_CHARACTERS, YamlError, read_yaml, read_yaml_file

SpecFile = Annotated[
    str | None,
    typer.Argument(
        metavar="FILE", help="The file of the spec, YAML or JSON; - reads standard input.", show_default=False
    ),
]
SpecFileOption = Annotated[str | None, typer.Option("--file", "-f", help="The same, as an option.")]


class SpecFileError(ServiceError):
    """The file of the spec cannot be read, or is not valid YAML."""


def read_spec(argument: str | None, option: str | None = None) -> Any:
    """Return the content of the file that a command names by an argument or by an option; `-` is standard input.

    Raises: SpecFileError, if it cannot be read or is not valid YAML; InvalidSpec, if it is empty; typer.BadParameter,
        if both name a file, or none does.
    """
    if argument is not None and option is not None:
        raise typer.BadParameter("give FILE once, with -f or without", param_hint="FILE")
    if (path := option if argument is None else argument) is None:
        raise typer.BadParameter("name the file of the spec, or - for standard input", param_hint="FILE")
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
