"""Reads files with one JSON object a line, and says what is wrong with each line. Imports no torch."""

from pathlib import Path
from typing import Final, TypeVar

from pydantic import BaseModel, ValidationError

from trainers.errors import ConfigError

_SHOWN_FAULTS: Final = 20

Line = TypeVar("Line", bound=BaseModel)


def read_jsonl(path: Path, line_model: type[Line], unique: str) -> list[Line]:
    """The file's lines in order, those without any text left out.

    Args:
        unique: the field whose value no two lines share.
    Raises: OSError, if the file cannot be read; ConfigError, naming every line that is not what `line_model` says, up
        to 20.
    """
    lines, faults, seen = list[Line](), list[str](), dict[object, int]()
    for number, text in enumerate(path.read_bytes().split(b"\n"), 1):
        if not text.strip():
            continue
        try:
            line = line_model.model_validate_json(text)
        except ValidationError as error:
            wrong = "; ".join(": ".join([*map(str, fault["loc"]), fault["msg"]]) for fault in error.errors())
            faults.append(f"{path}, line {number}: {wrong}")
            continue
        value = getattr(line, unique)
        if value in seen:
            faults.append(f"{path}, line {number}: {unique} {value!r:.60} is that of line {seen[value]}, too")
        seen.setdefault(value, number)
        lines.append(line)
    if faults:
        fields = ", ".join(f"`{name}`" for name in line_model.model_fields)
        more = len(faults) - _SHOWN_FAULTS
        raise ConfigError(
            *faults[:_SHOWN_FAULTS],
            *([f"{path}: {more} more such lines"] if more > 0 else []),
            f"Every line must be a JSON object with {fields}, as in the lines that come with the package",
        )
    return lines
