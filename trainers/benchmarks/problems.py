"""Reads the problems of a benchmark from JSONL, and refuses what is not exactly that benchmark. Imports no torch."""

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from pydantic import Field, ValidationError

from trainers.benchmarks.known_benchmarks import KNOWN_BENCHMARKS, usual
from trainers.catalog.entries import BenchmarkEntry, entry_folder, read_entry, shipped_file
from trainers.catalog.new_entry import origin_text
from trainers.config import Frozen
from trainers.errors import ConfigError

PROBLEMS_FILE: Final = "problems.jsonl"
_SHOWN_FAULTS: Final = 5


class BenchmarkProblem(Frozen):
    """A line of the JSONL file."""

    id: str = Field(min_length=1, description="Names the problem in the results; unique.")
    problem: str = Field(min_length=1, description="The text, LaTeX kept; unique.")
    answer: str = Field(min_length=1, description="The final answer alone.")
    source: str = Field(description="Its source.")


class ProblemSet(NamedTuple):
    """A benchmark's problems, and what a result says about where they came from."""

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
    """Write what is wrong with a problem, field by field."""
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
