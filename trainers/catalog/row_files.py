"""Reads rows of JSONL, JSON, CSV and Parquet files as plain JSON objects, columns unchanged. Imports nothing heavy."""

import csv
import gzip
import json
import math
import re
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from itertools import chain
from pathlib import Path
from typing import Any, Final, NamedTuple

from trainers.errors import ConfigError
from trainers.json_text import no_constant, unique_keys

FORMS: Final = (".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".parquet")
"""Suffixes of the files that can be read; all but .parquet may be followed by .gz."""
_LARGEST_FIELD: Final = 1 << 30
_REPEATED_COLUMN: Final = re.compile(r"Multiple matches for FieldRef\.Name\((.*?)\) in ")
"""Begins the error of pyarrow for a column that a Parquet file has twice."""

PROMPT_COLUMNS: Final = ("problem", "question", "prompt", "instruction", "query", "input")
ANSWER_COLUMNS: Final = ("answer", "final_answer", "solution", "target", "output", "label")
"""The names that published datasets give the two columns, the likelier ones first."""


class LikelyColumns(NamedTuple):
    """The columns that hold problem and answer, judging by their names; None if no column has such a name."""

    prompt: str | None
    answer: str | None


def likely_columns(columns: Collection[str]) -> LikelyColumns:
    """Guess which columns hold problem and answer; of several candidates the one named first above counts."""
    candidates = (PROMPT_COLUMNS, ANSWER_COLUMNS)
    return LikelyColumns(*(next((name for name in names if name in columns), None) for names in candidates))


def form_of(name: str) -> str | None:
    """Return the form of a file by its name, such as `.jsonl`; None if it cannot be read."""
    plain = name.lower().removesuffix(".gz")
    return next((form for form in FORMS if plain.endswith(form)), None)


def read_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of a file. Raises: ConfigError, naming the first row that cannot be kept as plain JSON."""
    form = form_of(path.name)
    if form is None:
        raise ConfigError(f"{path.name}: rows are read from {', '.join(FORMS)}")
    try:
        for number, row in enumerate(_rows(path, form), 1):
            place = f"{path.name}, row {number}"
            if not isinstance(row, Mapping):
                raise ConfigError(f"{place}: expected an object with columns, got {str(row)[:60]!r}")
            if None in row:
                raise ConfigError(f"{place}: more values than the first line names columns")
            yield {str(name): _plain(value, f"{place}, column {name}") for name, value in row.items()}
    except RecursionError as error:
        raise ConfigError(f"{path.name} cannot be read as {form}: its values are nested too deep") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path.name} is not in UTF-8 ({error.reason}); save it as UTF-8") from error
    except (ValueError, EOFError, csv.Error, gzip.BadGzipFile, zlib.error) as error:
        raise ConfigError(f"{path.name} cannot be read as {form}: {error}") from error
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror or error}") from error


def _rows(path: Path, form: str) -> Iterator[Any]:
    if form == ".parquet":
        yield from _parquet(path)
        return
    opening = gzip.open if path.name.lower().endswith(".gz") else open
    # lines end with \n only: other separators occur inside of texts
    with opening(path, "rt", encoding="utf-8-sig", newline="\n") as file:
        if form in (".jsonl", ".ndjson"):
            yield from _json_lines(file)
        elif form == ".json":
            yield from _json(file.read())
        else:
            csv.field_size_limit(_LARGEST_FIELD)
            between, head = "\t" if form == ".tsv" else ",", file.readline()
            spaced = f"{between} " in head  # as people write tables by hand
            table = csv.DictReader(chain([head], file), delimiter=between, skipinitialspace=spaced, strict=True)
            table.fieldnames = columns = [name.strip() for name in table.fieldnames or ()]
            if len(columns) == 1 and any(separator in columns[0] for separator in ";,|\t"):
                separator = "tab" if form == ".tsv" else "comma"
                raise ValueError(f"one column named {columns[0]!r}: is the separator a {separator}?")
            _check_columns([name for name in columns if name])
            yield from table


def _check_columns(names: Sequence[str]) -> None:
    """Refuse a column of which another one would hide the values. Raises: ValueError."""
    if repeated := next((name for name in names if names.count(name) > 1), None):
        raise ValueError(f"two columns are named {repeated!r}; rename one")


def _json_lines(lines: Iterable[str]) -> Iterator[Any]:
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                yield json.loads(line, parse_constant=no_constant, object_pairs_hook=unique_keys)
            except ValueError as error:
                raise ValueError(f"line {number}: {error}") from None


def _json(text: str) -> Iterator[Any]:
    """Yield the objects of a list, of the only list in an object, or of lines; datasets are published in all three."""
    try:
        value: Any = json.loads(text, parse_constant=no_constant, object_pairs_hook=unique_keys)
    except json.JSONDecodeError:
        if text.lstrip().startswith("["):
            raise
        yield from _json_lines(text.split("\n"))
        return
    if isinstance(value, Mapping):
        lists = [inner for inner in value.values() if isinstance(inner, list)]
        if len(lists) != 1:
            raise ValueError("expected a list of objects, or an object with one such list")
        value = lists[0]
    if not isinstance(value, list):
        raise ValueError("expected a list of objects")
    yield from value


def _parquet(path: Path) -> Iterator[Any]:
    import datasets

    table: Any = datasets.load_dataset("parquet", data_files=str(path), split="train", streaming=True)
    for name, feature in (table.features or {}).items():
        if isinstance(feature, datasets.Image | datasets.Audio | datasets.Video):
            raise ConfigError(f"{path.name}: column {name} holds no text ({type(feature).__name__}); only text is used")
    narrow = {
        name: feature.dtype
        for name, feature in (table.features or {}).items()
        if isinstance(feature, datasets.Value) and feature.dtype in ("float16", "float32")
    }
    try:
        for row in table:
            yield row | {name: _shortest(row[name], dtype) for name, dtype in narrow.items()}
    except ValueError as error:
        if repeated := _REPEATED_COLUMN.match(str(error)):
            _check_columns([repeated[1]] * 2)
        raise


def _shortest(value: float | None, dtype: str) -> float | None:
    """Return the number with the fewest digits that a narrow type holds as this value: 0.1 for 0.10000000149011612."""
    import numpy

    return value if value is None else float(str(numpy.dtype(dtype).type(value)))


def _plain(value: Any, place: str) -> Any:
    """Return a value as JSON has it; NaN and infinity become null."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(name): _plain(inner, place) for name, inner in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return [_plain(inner, place) for inner in value]
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, Decimal | timedelta):
        return str(value)
    raise ConfigError(f"{place}: {type(value).__name__} cannot be kept as plain JSON; leave that column out")
