"""Reads the problems of a benchmark, as the cache holds them or as they were published. Imports no torch.

What is not exactly that benchmark is refused.
"""

import hashlib
import json
import operator
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from pydantic import Field, ValidationError

from trainers.benchmarks.known_benchmarks import KNOWN_BENCHMARKS, usual
from trainers.catalog.entries import BenchmarkEntry, entry_folder, read_entry, shipped_file
from trainers.catalog.new_entry import origin_text
from trainers.catalog.row_files import likely_columns, read_rows
from trainers.config import Frozen
from trainers.errors import ConfigError

PROBLEMS_FILE: Final = "problems.jsonl"
_SHOWN_FAULTS: Final = 5
_THOUSANDS: Final = re.compile(r"-?\d{1,3}(,\d{3})+(\.\d+)?")


class BenchmarkProblem(Frozen):
    """A line of the JSONL file."""

    id: str = Field(min_length=1, description="Names the problem in the results; unique.")
    problem: str = Field(min_length=1, description="The text, LaTeX kept; unique.")
    answer: str = Field(min_length=1, description="The final answer alone.")
    source: str = Field(description="Its source.")
    group: str = Field(default="", exclude_if=operator.not_, description="Problems that are alike share it.")


class ProblemSet(NamedTuple):
    """A benchmark's problems and their origin, as a result records it."""

    problems: Sequence[BenchmarkProblem]
    origin: str
    """The place where the file was published."""
    sha256: str
    """The digest of the JSONL file."""


def read_problems(name: str, cache: Path) -> ProblemSet:
    """Read the problems of a benchmark: one of the package, or one that was added to the cache.

    Raises: ConfigError, if it was not added, or its file is not such JSONL or has another number of problems than the
        catalog says.
    """
    if shipped := shipped_file(BenchmarkEntry, name):
        path, origin = shipped, shipped.name
    else:
        try:
            entry = read_entry(cache, BenchmarkEntry, name)
        except ConfigError as error:
            source = f" {name}, from {KNOWN_BENCHMARKS[name].source}" if name in KNOWN_BENCHMARKS else ""
            raise ConfigError(f"{error}{source}") from error
        path, origin = entry_folder(cache, BenchmarkEntry, name) / PROBLEMS_FILE, origin_text(entry.origin)
    try:
        content = path.read_bytes()
        lines = content.decode().removesuffix("\n").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"benchmark {name}: {path} cannot be read: {error}") from error
    problems, faults = list[BenchmarkProblem](), list[str]()
    for number, line in enumerate(lines, 1):
        try:
            problems.append(BenchmarkProblem.model_validate_json(line))
        except ValidationError as error:
            faults.append(f"{path}, line {number}: {faults_in(error)}")
    if faults:
        more = len(faults) - _SHOWN_FAULTS
        raise ConfigError(*faults[:_SHOWN_FAULTS], *([f"{path}: {more} more such lines"] if more > 0 else []))
    check_problems(name, problems, str(path))
    return ProblemSet(problems, origin, hashlib.sha256(content).hexdigest())


def faults_in(error: ValidationError) -> str:
    """Describe the faults that validation found, field by field."""
    return ", ".join(": ".join([*map(str, fault["loc"]), fault["msg"]]) for fault in error.errors())


def check_problems(name: str, problems: Sequence[BenchmarkProblem], origin: str) -> None:
    """Refuse a wrong number of problems, and ids or texts that occur twice. Raises: ConfigError."""
    expected = usual(name).problems or len(problems) or 1
    faults = [] if len(problems) == expected else [f"{origin}: {len(problems)} problems; {name} has {expected}"]
    for field in ("id", "problem"):
        counts = Counter(str(getattr(problem, field)) for problem in problems)
        if twice := [value for value, count in counts.items() if count > 1]:
            faults.append(f"{origin}: {len(twice)} values of {field} occur more than once, such as {twice[0][:60]!r}")
    if faults:
        raise ConfigError(*faults)


def jsonl(problems: Sequence[BenchmarkProblem]) -> str:
    """Write the text of the file that `read_problems` reads."""
    return "".join(json.dumps(problem.model_dump(), ensure_ascii=False) + "\n" for problem in problems)


def read_upstream(name: str, files: Sequence[Path], source: str) -> list[BenchmarkProblem]:
    """Read a benchmark's problems from files as they were published, or from one in the form of the cache.

    Args:
        source: the place where they were published, for messages.
    Raises: ConfigError, if they cannot be read or do not hold this benchmark.
    """
    records = [row for file in files for row in read_rows(file)]
    if records and all(record.keys() | {"group"} == BenchmarkProblem.model_fields.keys() for record in records):
        problems = list[BenchmarkProblem]()
        for number, record in enumerate(records, 1):
            try:
                problems.append(BenchmarkProblem.model_validate(record))
            except ValidationError as error:
                raise ConfigError(f"{source}, record {number}: {faults_in(error)}") from error
        check_problems(name, problems, source)
        return problems
    return converted(name, records, source)


def converted(name: str, records: Iterable[Mapping[str, Any]], source: str) -> list[BenchmarkProblem]:
    """Return the distinct problems of records, in order and numbered; files made for avg@k repeat each problem k times.

    Raises: ConfigError, if a record has no problem or answer, answers or groups contradict, or the number is not the
        benchmark's.
    """
    answers, groups, faults = dict[str, str](), dict[str, str](), list[str]()
    for number, record in enumerate(records, 1):
        problem, answer = _problem(record), _answer(record)
        if problem is None or answer is None:
            faults.append(f"{source}, record {number}: no problem or no answer among {', '.join(record)}")
        elif answers.setdefault(problem, answer) != answer:
            faults.append(f"{source}, record {number}: answer {answer!r}, but {answers[problem]!r} before")
        elif groups.setdefault(problem, group := _group(record)) != group:
            faults.append(f"{source}, record {number}: group {group!r}, but {groups[problem]!r} before")
    if faults:
        raise ConfigError(*faults[:3])
    problems = [
        BenchmarkProblem(
            id=f"{name}-{number:04d}", problem=problem, answer=answer, source=source, group=groups[problem]
        )
        for number, (problem, answer) in enumerate(answers.items(), 1)
    ]
    check_problems(name, problems, source)
    return problems


def _problem(record: Mapping[str, Any]) -> str | None:
    """Return the problem's text, also where it is a chat whose last message asks."""
    text: Any = record.get(likely_columns([name for name, value in record.items() if value]).prompt or "")
    if isinstance(text, list):
        text = text[-1]["content"] if text else None
    return text if isinstance(text, str) and text else None


def _group(record: Mapping[str, Any]) -> str:
    """Return the group that a record names, a text or a whole number; empty without one."""
    group = record.get("group")
    return str(group).strip() if isinstance(group, str | int) and not isinstance(group, bool) else ""


def _answer(record: Mapping[str, Any]) -> str | None:
    """Return the final answer: what follows ####, whole numbers without .0, digits not grouped by commas."""
    judged: Any = record.get("reward_model")
    value: Any = judged.get("ground_truth") if isinstance(judged, Mapping) else record.get("answer")
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    text = str(value if value is not None else "").rpartition("####")[2].strip()
    return (text.replace(",", "") if _THOUSANDS.fullmatch(text) else text) or None
