"""The worker's sign of life: a file that its loop touches every few seconds, and what its age says."""

import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from sweep_service.processes.child_processes import this_host
from sweep_service.settings import Settings

BEAT_EVERY_S: Final = 5.0
DEAD_AFTER_S: Final = 60.0
"""Age of the last beat, in seconds, from which the worker counts as stuck: longer than a database may take."""


class Heartbeat:
    """Says that the worker of this machine is alive, for as long as its loop calls `beat`."""

    def __init__(self, settings: Settings) -> None:
        self._file = _file(settings)
        self._next = 0.0

    def beat(self) -> None:
        """Note that the loop moves. A folder that cannot be written stops no worker; its check fails then."""
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + BEAT_EVERY_S
        now = time.time()
        with suppress(OSError):
            self._file.touch()
            os.utime(self._file, (now, now))  # by this machine's clock, which a network drive's may not be

    def stop(self) -> None:
        """Take the sign away: the worker ends."""
        with suppress(OSError):
            self._file.unlink(missing_ok=True)


def complaint(settings: Settings) -> str | None:
    """Return what is wrong with the worker of this machine; None if its loop has moved within the last minute."""
    file = _file(settings)
    try:
        age_s = time.time() - file.stat().st_mtime
    except OSError as error:
        return f"no worker runs on {this_host()}: {file} cannot be read ({error.strerror})"
    if abs(age_s) > DEAD_AFTER_S:
        return f"the worker on {this_host()} is stuck, or was killed: its loop last moved {age_s:.0f} s ago ({file})"
    return None


def movement(settings: Settings) -> Callable[[], bool]:
    """Return what tells whether the loop of this machine's worker has moved since it was asked before, by no clock.

    Without a file nothing can be told, as on a disk that takes no new ones; the loop is taken to move then.
    """
    file, before = _file(settings), 0

    def moved() -> bool:
        nonlocal before
        try:
            now = file.stat().st_mtime_ns
        except OSError:
            return True
        has_moved, before = now != before, now
        return has_moved

    return moved


def _file(settings: Settings) -> Path:
    return settings.home / f"worker-{this_host()}.alive"
