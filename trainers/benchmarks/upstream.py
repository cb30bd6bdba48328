"""Takes a benchmark's problems out of the forms they are published in."""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from trainers.benchmarks.problems import BenchmarkProblem, check_problems, faults_in
from trainers.catalog.row_files import likely_columns, read_rows
from trainers.errors import ConfigError

_THOUSANDS: Final = re.compile(r"-?\d{1,3}(,\d{3})+(\.\d+)?")


def read_upstream(name: str, files: Sequence[Path], source: str) -> list[BenchmarkProblem]:
    """Read a benchmark's problems from files as they were published, or from one in the form of the cache.

    Args:
        source: the place where they were published, for messages.
    Raises: ConfigError, if they cannot be read or do not hold this benchmark.
    """
    records = [row for file in files for row in read_rows(file)]
    if records and all(record.keys() == BenchmarkProblem.model_fields.keys() for record in records):
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

    Raises: ConfigError, if a record has no problem or answer, answers contradict, or the number is not the benchmark's.
    """
    answers, faults = dict[str, str](), list[str]()
    for number, record in enumerate(records, 1):
        problem, answer = _problem(record), _answer(record)
        if problem is None or answer is None:
            faults.append(f"{source}, record {number}: no problem or no answer among {', '.join(record)}")
        elif answers.setdefault(problem, answer) != answer:
            faults.append(f"{source}, record {number}: answer {answer!r}, but {answers[problem]!r} before")
    if faults:
        raise ConfigError(*faults[:3])
    problems = [
        BenchmarkProblem(id=f"{name}-{number:04d}", problem=problem, answer=answer, source=source)
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


def _answer(record: Mapping[str, Any]) -> str | None:
    """Return the final answer: what follows ####, whole numbers without .0, digits not grouped by commas."""
    judged: Any = record.get("reward_model")
    value: Any = judged.get("ground_truth") if isinstance(judged, Mapping) else record.get("answer")
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    text = str(value if value is not None else "").rpartition("####")[2].strip()
    return (text.replace(",", "") if _THOUSANDS.fullmatch(text) else text) or None
