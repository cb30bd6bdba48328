"""Reads the rows of a dataset: its problems, and the rows left out with their reasons. Imports no torch."""

import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from trainers.catalog.entries import DatasetEntry, entry_folder, read_entry, shipped_entries, shipped_file
from trainers.config import DataConfig
from trainers.config.data_config import Allowed, Filter, Range
from trainers.errors import ConfigError
from trainers.rewards.final_answer import last_boxed
from trainers.tasks.base import Problem
from trainers.tasks.data_record import Reason, Source

_SHOWN_FAULTS: Final = 20
_SHOWN_VALUES: Final = 10
_MISSING: Final = object()
_NO_COLUMNS: Final[Mapping[str, str]] = {}


class DatasetRows(NamedTuple):
    """The rows of a file: those that are problems, and the others."""

    problems: list[Problem]
    """Texts without anything that a task writes around them, and final answers; no white space around either."""
    left_out: list[tuple[Reason, str]]
    """Reason and line, as in the file, of each row that was left out."""
    source: Source


def read_dataset(data: DataConfig, cache: Path, reward_columns: Mapping[str, str] = _NO_COLUMNS) -> DatasetRows:
    """Read the rows of the split that `data` names.

    Args:
        reward_columns: columns, or paths into them, whose values each problem carries for the rewards; each with the
            name of a reward that reads it.

    Raises: ConfigError, if there is no such dataset, split or column, or no row that passes a filter; or naming every
        line that is not a JSON object with a text as the problem and a text or number as the answer, up to 20.
    """
    path = dataset_file(data.ref, data.split, cache)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"task.data: {path} cannot be read: {error.strerror}") from error
    problems, left_out, faults = list[Problem](), list[tuple[Reason, str]](), list[tuple[int, str]]()
    columns, seen = dict[str, None](), {column: Counter[str]() for column in data.filter}
    rows = 0
    for number, line in enumerate(content.split(b"\n"), 1):
        if not line.strip():
            continue
        rows += 1
        try:
            row = _object(line)
            columns |= dict.fromkeys(row)
            problem = _read(row, data, reward_columns, seen)
        except ValueError as error:
            faults.append((number, str(error)))
            continue
        if isinstance(problem, Problem):
            problems.append(problem)
        else:
            left_out.append((problem, line.decode().strip()))
    if not rows:
        raise ConfigError(f"task.data: {path} has no rows")
    absent = {column: reward for column, reward in reward_columns.items() if not _has(columns, column)}
    of_all_rows = [_lacking(column, reward) for column, reward in absent.items()]  # is said once
    of_rows = [f"{path}, line {number}: {fault}" for number, fault in faults if fault not in of_all_rows]
    complaints = [*_absent(data, columns, absent), *of_rows[:_SHOWN_FAULTS]]
    if (more := len(of_rows) - _SHOWN_FAULTS) > 0:
        complaints.append(f"{path}: {more} more such lines")
    complaints += _unmatched(data.filter, seen, columns)
    if complaints:
        raise ConfigError(*complaints)
    digest = hashlib.sha256(content).hexdigest()
    return DatasetRows(problems, left_out, Source(ref=data.ref, split=data.split, rows=rows, sha256=digest))


def dataset_file(ref: str, split: str, cache: Path) -> Path:
    """Return the path of the rows of a split.

    Raises: ConfigError, if there is no such dataset, or if it has no such split.
    """
    folder, shipped = entry_folder(cache, DatasetEntry, ref), shipped_file(DatasetEntry, ref)
    if shipped is not None and folder.exists():
        raise ConfigError(f"task.data: {ref} comes with the package, and {folder} is another; rename that folder")
    try:
        splits = ["train"] if shipped else list(read_entry(cache, DatasetEntry, ref).splits)
    except ConfigError as error:
        names = ", ".join(entry.name for entry in shipped_entries(DatasetEntry))
        raise ConfigError(f"task.data: {error}, or take one that comes with the package: {names}") from error
    if split not in splits:
        raise ConfigError(f"task.data: {ref} has no split {split}; it has {', '.join(splits)}")
    return shipped or folder / f"{split}.jsonl"


def _object(line: bytes) -> Mapping[str, Any]:
    try:
        row = json.loads(line)
    except RecursionError:
        raise ValueError("it is not valid JSON: nested too deep") from None
    except ValueError as error:
        raise ValueError(f"it is not valid JSON: {error}") from error
    if not isinstance(row, Mapping):
        raise ValueError(f"it is a JSON {type(row).__name__}, not an object")
    return row


def _read(
    row: Mapping[str, Any], data: DataConfig, reward_columns: Mapping[str, str], seen: Mapping[str, Counter[str]]
) -> Problem | Reason:
    """Return the row's problem and answer, or why it has none; count the values of filtered columns in `seen`."""
    passes = True
    for column, allowed in data.filter.items():
        value = _at(row, column)
        seen[column][json.dumps(None if value is _MISSING else value)] += 1
        passes &= _allowed(value, allowed)
    if not passes:
        return "filter"
    problem = _text(_at(row, data.prompt), data.prompt)
    if not problem:
        return "empty"
    answer = _answer(_at(row, data.answer), data)
    if not answer:
        return "no_answer"
    values = {column: _at(row, column) for column in reward_columns}
    for column, value in values.items():
        if value is _MISSING:
            raise ValueError(_lacking(column, reward_columns[column]))
    return Problem(problem, answer, json.dumps(values, sort_keys=True) if values else "")


def _lacking(column: str, reward: str) -> str:
    return f"it has no {column!r}, which the reward {reward} reads"


def _allowed(value: Any, allowed: Allowed) -> bool:
    if isinstance(allowed, Range):
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        return (allowed.min is None or value >= allowed.min) and (allowed.max is None or value <= allowed.max)
    return any(value == one and isinstance(value, bool) == isinstance(one, bool) for one in allowed)


def _at(row: Mapping[str, Any], column: str) -> Any:
    """Return the value of a column, or of a path into one; `_MISSING` if the row has none."""
    if column in row:
        return row[column]
    value: Any = row
    for part in column.split("."):
        if isinstance(value, Mapping) and part in value:
            value = value[part]
        elif isinstance(value, Sequence) and not isinstance(value, str) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        else:
            return _MISSING
    return value


def _text(value: Any, column: str) -> str:
    if value is None or value is _MISSING:
        return ""
    if not isinstance(value, str):
        raise ValueError(f"{column} is {_shown(value)}; it must be a text")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{column} holds half a character (an unpaired surrogate), which no tokenizer reads") from None
    return value.strip()


def _answer(value: Any, data: DataConfig) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        value = str(int(value)) if value == int(value) else repr(value)
    elif value is not None and value is not _MISSING and not isinstance(value, str):
        raise ValueError(f"{data.answer} is {_shown(value)}; it must be a text or a number")
    text = _text(value, data.answer)
    if data.answer_boxed:
        return (last_boxed(text) or "").strip()
    if data.answer_after is not None:
        _, marker, text = text.rpartition(data.answer_after)
        return text.strip() if marker else ""
    return text


def _shown(value: Any) -> str:
    return f"{json.dumps(value):.60}"


def _absent(data: DataConfig, columns: Mapping[str, None], for_rewards: Mapping[str, str]) -> Iterator[str]:
    """Name the task's columns that no row has, then those of `for_rewards`, each with the reward that reads it."""
    columns_by_setting = {"prompt": data.prompt, "answer": data.answer}
    columns_by_setting |= {f"filter.{column}": column for column in data.filter}
    for setting, column in columns_by_setting.items():
        if not _has(columns, column):
            yield f"task.data.{setting}: {data.ref} has no column {column}; it has {', '.join(columns)}"
    for column, reward in for_rewards.items():
        yield (
            f"task.data: the reward {reward} reads the column {column!r}, which {data.ref} does not have; it has "
            f"{', '.join(columns)}"
        )


def _has(columns: Mapping[str, None], column: str) -> bool:
    """True if a row has the column, or what a path leads into; unknown if no row could be read."""
    return not columns or column in columns or column.partition(".")[0] in columns


def _unmatched(filters: Filter, seen: Mapping[str, Counter[str]], columns: Mapping[str, None]) -> Iterator[str]:
    for column, allowed in filters.items():
        values = seen[column]
        if column.partition(".")[0] in columns and not any(_allowed(json.loads(v), allowed) for v in values):
            present = ", ".join(value for value, _ in values.most_common(_SHOWN_VALUES))
            more = ", …" if len(values) > _SHOWN_VALUES else ""
            expected = str(allowed) if isinstance(allowed, Range) else " or ".join(map(json.dumps, allowed))
            yield f"task.data.filter.{column}: no row has {expected}; there are {present}{more}"
