"""Reads the problems of benchmarks, so that tasks can leave them out or validate on them. Imports no torch."""

import hashlib
import json
from collections.abc import Collection, Iterable
from pathlib import Path

from trainers.catalog.entries import BenchmarkEntry, entry_folder, read_entry, shipped_file
from trainers.errors import ConfigError
from trainers.tasks.base import Problem
from trainers.tasks.data_record import Source
from trainers.tasks.dataset_rows import DatasetRows
from trainers.tasks.same_text import same_text


def benchmark_texts(names: Iterable[str], cache: Path) -> set[str]:
    """Read the problems of benchmarks of the catalog, in the form in which equal ones are equal (`same_text`).

    Raises: ConfigError, if a benchmark is not in the catalog, or its file is damaged.
    """
    benchmarks = (benchmark_rows(name, cache, "task.apart_from") for name in names)
    return {same_text(problem.prompt) for rows in benchmarks for problem in rows.problems}


def benchmark_rows(name: str, cache: Path, place: str, columns: Collection[str] = ()) -> DatasetRows:
    """Read a benchmark of the catalog as a dataset in which every row is a problem.

    Args:
        place: the setting that names the benchmark; errors begin with it.
        columns: columns that rewards read beside problem and answer; benchmarks have none.
    Raises: ConfigError, if it is not in the catalog, or its file is damaged, or columns are asked for.
    """
    if columns:
        raise ConfigError(
            f"{place}: the rewards read {', '.join(columns)} of each row, and benchmarks have a problem and an answer "
            "alone; validate on a dataset that has them"
        )
    path = shipped_file(BenchmarkEntry, name)
    try:
        if path is None:
            read_entry(cache, BenchmarkEntry, name)
            path = entry_folder(cache, BenchmarkEntry, name) / "problems.jsonl"
        content = path.read_bytes()
        rows = [json.loads(line) for line in content.splitlines() if line.strip()]
        problems = [Problem(str(row["problem"]), str(row["answer"]), group=str(row.get("group", ""))) for row in rows]
    except ConfigError as error:
        raise ConfigError(f"{place}: {error}") from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{place} {name}: {path} is damaged ({error}); add the benchmark anew") from error
    source = Source(ref=name, split="benchmark", rows=len(problems), sha256=hashlib.sha256(content).hexdigest())
    return DatasetRows(problems, [(problem.prompt,) for problem in problems], [], source)
