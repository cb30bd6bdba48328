"""Thins what a trainer of one's own says beside its results, so that no program floods the store. Pure.

Steps, evaluations and checkpoints are results: none is left out. `trainer.steps` bounds them, and a program that writes
too many bytes of them ends with a reason (`own_record.py`).
"""

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

MAX_WARNINGS: Final = 100
"""Number of warnings that are kept of an attempt; how many more there were is told."""
MAX_STARTED: Final = 10
LEFT_OUT: Final = "WARNINGS_LEFT_OUT"
_INTERVAL_S: Final = 1.0
_INTERVAL_SHARE: Final = 0.02
"""Share of the time so far that lies between two kept events `progress`, as for our own trainer."""


class OwnNotes:
    """Decides for the events of one attempt, in their order, which are kept."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._begun, self._last = clock, clock(), -_INTERVAL_S
        self._warnings = self._started = 0

    def kept(self, event: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the event, nothing, or in place of a warning how many were left out: at each power of two."""
        match event["type"]:
            case "warning":
                self._warnings += 1
                left_out = self._warnings - MAX_WARNINGS
                if left_out > 0:
                    return [] if left_out & (left_out - 1) else [_told(event, left_out)]
            case "progress":
                now = self._clock()
                if now - self._last < max(_INTERVAL_S, _INTERVAL_SHARE * (now - self._begun)):
                    return []
                self._last = now
            case "started":
                self._started += 1
                if self._started > MAX_STARTED:
                    return []
            case _:
                pass
        return [dict(event)]


def _told(event: Mapping[str, Any], left_out: int) -> dict[str, Any]:
    text = f"of an attempt's warnings the first {MAX_WARNINGS} are kept; at least {left_out} more were left out"
    evidence = {"left_out": float(left_out)}
    return {"type": "warning", "code": LEFT_OUT, "message": text, "evidence": evidence} | {
        key: event[key] for key in ("step", "time")
    }
