"""Reads the problems of benchmarks, so that tasks can leave them out. Imports no torch."""

import json
from collections.abc import Iterable
from pathlib import Path

from trainers.catalog.entries import BenchmarkEntry, entry_folder, read_entry, shipped_file
from trainers.errors import ConfigError
from trainers.tasks.same_text import same_text


def benchmark_texts(names: Iterable[str], cache: Path) -> set[str]:
    """Read the problems of benchmarks of the catalog, in the form in which equal ones are equal (`same_text`).

    Raises: ConfigError, if a benchmark is not in the catalog, or its file is damaged.
    """
    texts = set[str]()
    for name in names:
        path = shipped_file(BenchmarkEntry, name)
        try:
            if path is None:
                read_entry(cache, BenchmarkEntry, name)
                path = entry_folder(cache, BenchmarkEntry, name) / "problems.jsonl"
            texts |= {same_text(json.loads(line)["problem"]) for line in path.read_bytes().splitlines() if line.strip()}
        except ConfigError as error:
            raise ConfigError(f"task.apart_from: {error}") from error
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ConfigError(f"task.apart_from {name}: {path} is damaged ({error}); add the benchmark anew") from error
    return texts
