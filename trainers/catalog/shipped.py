"""The datasets and benchmarks that come with the package: in every catalog, in no cache."""

import functools
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import trainers
from trainers.catalog.entries import AnyEntry, BenchmarkEntry, DatasetEntry, Origin, list_entries

_PACKAGE: Final = Path(trainers.__file__).parent


def shipped_entries(entry_type: type[AnyEntry]) -> list[AnyEntry]:
    """The entries of a kind that come with the package, by name."""
    return [_SHIPPED[entry_type].read(path) for path in _files(entry_type)]


def all_entries(cache: Path, entry_type: type[AnyEntry]) -> list[AnyEntry]:
    """The entries of a kind, by name: those of the package, and those that were added to the cache."""
    return sorted([*shipped_entries(entry_type), *list_entries(cache, entry_type)], key=lambda entry: entry.name)


def shipped_file(entry_type: type[AnyEntry], name: str) -> Path | None:
    """The lines of an entry that comes with the package; None: there is none of that name."""
    return next((path for path in _files(entry_type) if path.stem == name), None)


def _files(entry_type: type[AnyEntry]) -> list[Path]:
    return sorted(_SHIPPED[entry_type].folder.glob("*.jsonl")) if entry_type in _SHIPPED else []


@functools.cache
def _dataset(path: Path) -> DatasetEntry:
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return DatasetEntry(**_record(path), splits={"train": len(rows)}, columns=tuple(rows[0]))


@functools.cache
def _benchmark(path: Path) -> BenchmarkEntry:
    return BenchmarkEntry(**_record(path), problems=len(path.read_bytes().splitlines()))


def _record(path: Path) -> dict[str, Any]:
    content = path.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    return {"name": path.stem, "origin": Origin(), "added_at": None, "bytes": len(content), "digest": digest}


class _Shipped:
    def __init__(self, folder: Path, read: Callable[[Path], Any]) -> None:
        self.folder, self.read = folder, read


_SHIPPED: Final[dict[type[Any], _Shipped]] = {
    DatasetEntry: _Shipped(_PACKAGE / "tasks" / "data", _dataset),
    BenchmarkEntry: _Shipped(_PACKAGE / "benchmarks" / "data", _benchmark),
}
