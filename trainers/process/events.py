"""The run's own record: `events.jsonl`, one JSON object a line, appended and flushed at once."""

import json
import math
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Self

EVENTS_FILE: Final = "events.jsonl"


class EventWriter:
    """Appends events to a file. A line torn by a crash is removed on opening, so every line is whole JSON.

    Args:
        path: the file; made with its folder if it does not exist.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        content = path.read_bytes() if path.exists() else b""
        if (whole := content.rfind(b"\n") + 1) < len(content):
            os.truncate(path, whole)
        self._file = path.open("a", encoding="utf-8")

    def write(self, kind: str, **fields: Any) -> None:
        """Append one event and hand it to the operating system. Numbers that are not finite become null."""
        self._file.write(_line(kind, fields))
        self._file.flush()

    def sync(self) -> None:
        """Return once everything written is on the disk."""
        os.fsync(self._file.fileno())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        try:
            with self._file:
                self.sync()
        except OSError:  # after an error, it says no more than that one
            if error is None:
                raise


class NoEvents(EventWriter):
    """Discards events: for processes that train along with the one that writes the record."""

    def __init__(self) -> None: ...

    def write(self, kind: str, **fields: Any) -> None:
        """Do nothing."""

    def sync(self) -> None:
        """Do nothing."""

    def __exit__(self, *_: object) -> None: ...


def append_event(path: Path, kind: str, **fields: Any) -> None:
    """Append one event to a file that another process may have open, in one write."""
    with path.open("ab", buffering=0) as file:
        file.write(_line(kind, fields).encode())


def _line(kind: str, fields: Mapping[str, Any]) -> str:
    event = {"type": kind, "time": time.time(), **fields}
    return json.dumps(_finite(event), allow_nan=False, separators=(",", ":")) + "\n"


def read_events(path: Path) -> list[dict[str, Any]]:
    """Read all whole events of a file, oldest first; a last line still being written is left out."""
    with path.open(encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.endswith("\n")]


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return value
