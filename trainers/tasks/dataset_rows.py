"""Reads the rows of a dataset: its problems, and the rows left out with their reasons. Imports no torch."""

import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, NamedTuple

from trainers.catalog.entries import DatasetEntry, entry_folder, read_entry, shipped_entries, shipped_file
from trainers.config import DataConfig
from trainers.config.data_config import COLUMN_OF_TEXT, Allowed, Filter, Range
from trainers.errors import ConfigError
from trainers.rewards.final_answer import last_boxed
from trainers.tasks.base import Problem
from trainers.tasks.data_record import Reason, Source
from trainers.tasks.row_values import (
    MISSING,
    Turn,
    is_chat,
    is_list,
    plain_text,
    shown,
    turn_of,
    turns_of,
    value_at,
    where_it_ends,
)

_SHOWN_FAULTS: Final = 20
_SHOWN_VALUES: Final = 10
_NO_COLUMNS: Final[Mapping[str, str]] = {}


class DatasetRows(NamedTuple):
    """The rows of a file: those that are problems, and the others."""

    problems: list[Problem]
    """Texts without anything that a task writes around them, and final answers; no white space around either."""
    texts: list[tuple[str, ...]]
    """Texts of each problem that may be a benchmark's: its prompt, the columns in it, and the turns of its chat."""
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
    problems, left_out, faults = list[Problem](), list[tuple[Reason, str]](), dict[str, list[int]]()
    texts = list[tuple[str, ...]]()
    columns, seen = dict[str, None](), {column: Counter[str]() for column in data.filter}
    rows, paths = 0, _Paths(data)
    for number, line in enumerate(content.split(b"\n"), 1):
        if not line.strip():
            continue
        rows += 1
        try:
            row = _object(line)
            columns |= dict.fromkeys(row)
            paths.look(row)
            problem = _read(row, data, reward_columns, seen)
        except ValueError as error:
            faults.setdefault(str(error), []).append(number)
            continue
        if isinstance(problem, Problem):
            problems.append(problem)
            texts.append(_texts(row, data, problem))
        else:
            left_out.append((problem, line.decode().strip()))
    if not rows:
        raise ConfigError(f"task.data: {path} has no rows")
    absent = {column: reward for column, reward in reward_columns.items() if not _has(columns, column)}
    for column, reward in absent.items():
        faults.pop(_lacking(column, reward), None)  # is said once, of all rows
    of_rows = [f"{path}, line {_numbers(numbers)}: {fault}" for fault, numbers in faults.items()]
    complaints = [*_absent(data, columns, absent), *paths.leading_nowhere(columns), *of_rows[:_SHOWN_FAULTS]]
    if rest := list(faults.values())[_SHOWN_FAULTS:]:
        complaints.append(f"{path}: {sum(map(len, rest))} more such lines")
    complaints += _unmatched(data.filter, seen, columns)
    if complaints:
        raise ConfigError(*complaints)
    digest = hashlib.sha256(content).hexdigest()
    return DatasetRows(problems, texts, left_out, Source(ref=data.ref, split=data.split, rows=rows, sha256=digest))


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
        value = value_at(row, column)
        seen[column][json.dumps(None if value is MISSING else value)] += 1
        passes &= _allowed(value, allowed)
    if not passes:
        return "filter"
    turns, problem = _prompt(row, data)
    if not problem:
        return "empty"
    answer = _answer(row, data, problem)
    if not answer:
        return "no_answer"
    values = {column: value_at(row, column) for column in reward_columns}
    for column, value in values.items():
        if value is MISSING:
            raise ValueError(_lacking(column, reward_columns[column]))
    columns_json = json.dumps(values, sort_keys=True) if values else ""
    group = _group(row, data.group) if data.group is not None else ""
    return Problem(problem, answer, columns_json, json.dumps(turns) if turns else "", group)


def _prompt(row: Mapping[str, Any], data: DataConfig) -> tuple[list[Turn], str]:
    """Return what was said before in the row's chat, and the text to reply to: of one column, or of several."""
    columns = data.prompt_columns
    for column in columns:
        _check_turn(row, column)
    value = _parsed(value_at(row, data.prompt)) if columns == (data.prompt,) else None
    if is_list(value):
        return _asked(turns_of(value, data.prompt), data)
    if value is not None:
        return [], plain_text(value, data.prompt)
    texts = {column: plain_text(_number_as_text(value_at(row, column)), column) for column in columns}
    if not any(texts.values()):
        return [], ""
    return [], _with_columns(data.prompt, texts)


def in_text(data: DataConfig, problem: str) -> str:
    """Return a problem of a benchmark in the text that the prompts of the data have around their only column."""
    if data.prompt_columns == (data.prompt,) or len(set(data.prompt_columns)) > 1:
        return problem
    return _with_columns(data.prompt, dict.fromkeys(data.prompt_columns, problem))


def _with_columns(text: str, values: Mapping[str, str]) -> str:
    return plain_text(COLUMN_OF_TEXT.sub(lambda name: values[name[1]] if name[1] else name[0][0], text), "")


def _texts(row: Mapping[str, Any], data: DataConfig, problem: Problem) -> tuple[str, ...]:
    """Return what of a row may be a problem of a benchmark."""
    if data.prompt_columns != (data.prompt,):
        parts = [str(_number_as_text(value_at(row, column))) for column in data.prompt_columns]
        return (problem.prompt, *parts, "\n".join(parts))
    return (problem.prompt, *(content for _, content in problem.turns))


def _parsed(value: Any) -> Any:
    """Return a chat that a table holds as JSON in a text; anything else as it is."""
    if isinstance(value, str) and value.lstrip().startswith("[{"):
        with suppress(ValueError, RecursionError):
            if is_chat(chat := json.loads(value)):
                return chat
    return value


def _check_turn(row: Mapping[str, Any], column: str) -> None:
    """Refuse a path to a turn of a chat that is not the user's, or not the first. Raises: ValueError."""
    turn = turn_of(row, column) if "." in column else None
    if turn is not None and (turn[0] != "user" or turn[1]):
        chat = column.rsplit(".", 2)[0]
        before = f" after {len(turn[1])} others" if turn[1] else ""
        raise ValueError(
            f"{column} is a turn of the {turn[0]}{before}, without the rest of its chat; name the whole of it: {chat}"
        )


def _asked(turns: list[Turn], data: DataConfig) -> tuple[list[Turn], str]:
    """Part a chat into what was said before the user's last turn, and that turn; a reply after it is left out."""
    last = max((place for place, turn in enumerate(turns) if turn.role == "user"), default=None)
    if last is None:
        raise ValueError(f"{data.prompt} is a chat without a turn of the user")
    if last and data.template == "raw":
        raise ValueError(
            f"{data.prompt} is a chat of {last + 1} turns up to the user's last; set task.data.template: chat, which "
            "keeps their roles"
        )
    return turns[:last], turns[last].content


def _lacking(column: str, reward: str) -> str:
    return f"it has no {column!r}, which the reward {reward} reads"


def _allowed(value: Any, allowed: Allowed) -> bool:
    if isinstance(allowed, Range):
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        return (allowed.min is None or value >= allowed.min) and (allowed.max is None or value <= allowed.max)
    return any(value == one and isinstance(value, bool) == isinstance(one, bool) for one in allowed)


def _number_as_text(value: Any) -> Any:
    """Return a number as a text, a whole one without a point; anything else as it is."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, float) or not math.isfinite(value):
        return value
    return str(int(value)) if value.is_integer() else f"{Decimal(repr(value)):f}"  # 0.00001, as no reward reads 1e-05


def _answer(row: Mapping[str, Any], data: DataConfig, problem: str) -> str:
    value = _number_as_text(value_at(row, data.answer))
    if value is not None and value is not MISSING and not isinstance(value, str):
        if is_list(value):
            raise ValueError(f"{data.answer} is a list; it must be a text or a number, as {data.answer}.0 may be")
        if isinstance(value, Mapping) and value:
            inside = f"{data.answer}.{next(iter(value))}"
            raise ValueError(f"{data.answer} is an object; it must be a text or a number, as {inside} may be")
        raise ValueError(f"{data.answer} is {shown(value)}; it must be a text or a number")
    if "." in data.answer and (turn := turn_of(row, data.answer)) is not None:
        _check_reply(data, *turn, problem)
    text = plain_text(value, data.answer)
    if data.answer_boxed:
        return (last_boxed(text) or "").strip()
    if data.answer_after is not None:
        _, marker, text = text.rpartition(data.answer_after)
        return text.strip() if marker else ""
    return text


def _group(row: Mapping[str, Any], column: str) -> str:
    value = _number_as_text(value_at(row, column))
    if value is not None and value is not MISSING and not isinstance(value, str):
        raise ValueError(f"{column} is {shown(value)}; the group must be a text or a number, or missing")
    return plain_text(value, column)


def _check_reply(data: DataConfig, role: str, before: Sequence[Turn], problem: str) -> None:
    """Refuse a turn of a chat that is no reply to the prompt. Raises: ValueError."""
    chat = data.answer.rsplit(".", 2)[0]
    if role != "assistant":
        raise ValueError(f"{data.answer} is a turn of the {role}, not a reply; {chat}.-1 is the last turn")
    asked = next((turn.content for turn in reversed(before) if turn.role == "user"), None)
    if any(column.split(".")[0] == chat.split(".")[0] for column in data.prompt_columns) and asked != problem:
        raise ValueError(f"{data.answer} replies to another turn than the prompt ends with; {chat}.-1 is the last turn")


def _numbers(lines: list[int]) -> str:
    """Name lines by the number of the first one."""
    return f"{lines[0]}" if len(lines) == 1 else f"{lines[0]} and {len(lines) - 1} more"


class _Paths:
    """The paths into columns by which a task reads rows, until a row has what they lead to."""

    def __init__(self, data: DataConfig) -> None:
        self._data = data
        self._open = {path: setting for setting, path in _settings(data) if "." in path}
        self._example = dict[str, Mapping[str, Any]]()

    def look(self, row: Mapping[str, Any]) -> None:
        """Note what a row has."""
        for path in list(self._open):
            if value_at(row, path) is not MISSING:
                del self._open[path]
            elif path.partition(".")[0] in row:
                self._example.setdefault(path, row)

    def leading_nowhere(self, columns: Mapping[str, None]) -> Iterator[str]:
        """Name the paths that no row has, though it has the column."""
        for path, setting in self._open.items():
            if path.partition(".")[0] in columns:
                ends = where_it_ends(self._example[path], path)
                yield f"task.data.{setting}: no row of {self._data.ref} has {path}; in the first, {ends}"


def _absent(data: DataConfig, columns: Mapping[str, None], for_rewards: Mapping[str, str]) -> Iterator[str]:
    """Name the task's columns that no row has, then those of `for_rewards`, each with the reward that reads it."""
    for setting, column in [*_settings(data), *((f"filter.{column}", column) for column in data.filter)]:
        if not _has(columns, column):
            yield f"task.data.{setting}: {data.ref} has no column {column}; it has {', '.join(columns)}"
    for column, reward in for_rewards.items():
        yield (
            f"task.data: the reward {reward} reads the column {column!r}, which {data.ref} does not have; it has "
            f"{', '.join(columns)}"
        )


def _settings(data: DataConfig) -> list[tuple[str, str]]:
    """Return the settings that name a column of which every problem is made, each with the column."""
    group = [] if data.group is None else [("group", data.group)]
    return [*(("prompt", column) for column in data.prompt_columns), ("answer", data.answer), *group]


def _has(columns: Mapping[str, None], column: str) -> bool:
    """True if a row has the column, or what a path leads into; unknown if no row could be read."""
    return not columns or column in columns or column.partition(".")[0] in columns


def _unmatched(filters: Filter, seen: Mapping[str, Counter[str]], columns: Mapping[str, None]) -> Iterator[str]:
    for column, allowed in filters.items():
        values = seen[column]
        parts = [allowed] if isinstance(allowed, Range) else [(one,) for one in allowed]
        absent = [part for part in parts if not any(_allowed(json.loads(value), part) for value in values)]
        if column.partition(".")[0] in columns and absent:
            present = ", ".join(value for value, _ in values.most_common(_SHOWN_VALUES))
            more = ", …" if len(values) > _SHOWN_VALUES else ""
            expected = " or ".join(str(part) if isinstance(part, Range) else json.dumps(*part) for part in absent)
            yield f"task.data.filter.{column}: no row has {expected}; there are {present}{more}"
