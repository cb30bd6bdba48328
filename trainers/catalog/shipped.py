"""The datasets and benchmarks that come with the package: they are in every catalog, and in no cache."""

import functools
import hashlib
import json
from pathlib import Path
from typing import Any, Final

import trainers
from trainers.catalog.entries import AnyEntry, BenchmarkEntry, DatasetEntry, Origin, list_entries

_PACKAGE: Final = Path(trainers.__file__).parent
_FOLDERS: Final = {DatasetEntry: _PACKAGE / "tasks" / "data", BenchmarkEntry: _PACKAGE / "benchmarks" / "data"}


def shipped_entries(entry_type: type[AnyEntry]) -> list[AnyEntry]:
    """List the entries of a kind that come with the package, by name."""
    return [_entry(entry_type, path) for path in _files(entry_type)]


def all_entries(cache: Path, entry_type: type[AnyEntry]) -> list[AnyEntry]:
    """List the entries of a kind by name: those of the package, and those that were added to the cache."""
    return sorted([*shipped_entries(entry_type), *list_entries(cache, entry_type)], key=lambda entry: entry.name)


def shipped_file(entry_type: type[AnyEntry], name: str) -> Path | None:
    """Return the file of an entry that comes with the package; None: there is none of that name."""
    return next((path for path in _files(entry_type) if path.stem == name), None)


def _files(entry_type: type[AnyEntry]) -> list[Path]:
    return sorted(_FOLDERS[entry_type].glob("*.jsonl")) if entry_type in _FOLDERS else []


@functools.cache
def _entry(entry_type: type[Any], path: Path) -> Any:
    content = path.read_bytes()
    lines, digest = content.split(b"\n")[:-1], hashlib.sha256(content).hexdigest()
    facts: dict[str, Any] = {"problems": len(lines)}
    if entry_type is DatasetEntry:
        facts = {"splits": {"train": len(lines)}, "columns": tuple(json.loads(lines[0]))}
    return entry_type(name=path.stem, origin=Origin(), added_at=None, bytes=len(content), digest=digest, **facts)
