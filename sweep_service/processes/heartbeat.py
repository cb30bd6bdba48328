"""Signs of life: files that a worker's loop, and Ray's node, touch every few seconds, and how to read their ages.

They lie in the data folder of the machine. Where none lies, nobody of this machine is to be judged by one.
"""

import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from sweep_service.processes.child_processes import this_host

BEAT_EVERY_S: Final = 5.0
SILENT_S: Final = 3 * BEAT_EVERY_S
"""Age of the last beat, in seconds, from which nobody should count on whoever gives it."""
DEAD_AFTER_S: Final = 60.0
"""Age from which a worker counts as stuck: longer than a database may take."""


class Heartbeat:
    """Says that somebody is alive, for as long as `beat` is called."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._next = 0.0

    def beat(self) -> None:
        """Note that there is life. A folder that cannot be written stops nobody; whoever looks sees no life then."""
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + BEAT_EVERY_S
        now = time.time()
        with suppress(OSError):
            self._file.touch()
            os.utime(self._file, (now, now))  # by this machine's clock, which a network drive's may not be

    def stop(self) -> None:
        """Take the sign away, at an orderly end."""
        with suppress(OSError):
            self._file.unlink(missing_ok=True)


def worker_file(home: Path) -> Path:
    """Return the sign of life of this machine's worker."""
    return home / f"worker-{this_host()}.alive"


def node_file(home: Path) -> Path:
    """Return the sign of life of the Ray node that `serve` keeps."""
    return home / f"ray-{this_host()}.alive"


def missing_worker(home: Path) -> str | None:
    """Return the trouble with the worker of this machine; None if its loop has moved within the last minute."""
    file = worker_file(home)
    try:
        age_s = time.time() - file.stat().st_mtime
    except OSError as error:
        return f"no worker runs on {this_host()}: {file} cannot be read ({error.strerror})"
    if abs(age_s) > DEAD_AFTER_S:
        return f"the worker on {this_host()} is stuck, or was killed: its loop last moved {age_s:.0f} s ago ({file})"
    return None


def standstill(home: Path) -> str | None:
    """Name the part of this machine that was started, has not ended, and does not work; None if none is known."""
    for name, file in (("the worker", worker_file(home)), ("Ray's node", node_file(home))):
        with suppress(OSError):  # it was never started, or has ended
            if (age_s := abs(time.time() - file.stat().st_mtime)) > SILENT_S:
                return f"{name} on {this_host()} has shown no life for {age_s:.0f} s, so sweeps wait ({file})"
    return None


def movement(file: Path) -> Callable[[], bool]:
    """Return a function that is True if a sign of life has changed since its last call, by no clock.

    Without a file nothing can be told, as on a disk that takes no new ones; there is life then.
    """
    before = 0

    def moved() -> bool:
        nonlocal before
        try:
            now = file.stat().st_mtime_ns
        except OSError:
            return True
        has_moved, before = now != before, now
        return has_moved

    return moved
