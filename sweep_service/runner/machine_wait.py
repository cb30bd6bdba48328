"""Holds work back after its machine has failed, such as by a full disk, until files can be written again."""

import tempfile
import time
from pathlib import Path
from typing import Final

FIRST_WAIT_S: Final = 1.0
LONGEST_WAIT_S: Final = 60.0


class MachineWait:
    """Says whether attempts may begin: none does while their folder `storage` takes no file.

    Each failure in a row doubles the wait, up to a minute.
    """

    def __init__(self, storage: Path) -> None:
        self._storage = storage
        self._wait_s = 0.0
        self._until: float | None = None

    def begin(self) -> None:
        """Note that the machine has failed an attempt. Failures while it already waits are of the same cause."""
        if self._until is None:
            self._wait_s = min(LONGEST_WAIT_S, 2 * self._wait_s or FIRST_WAIT_S)
            self._until = time.monotonic() + self._wait_s

    def forget(self) -> None:
        """Note that an attempt ended by itself: the next failure is the first one again."""
        self._wait_s = 0.0

    @property
    def is_over(self) -> bool:
        """True if attempts may begin."""
        if self._until is not None and time.monotonic() >= self._until:
            self._until = None if takes_files(self._storage) else time.monotonic() + FIRST_WAIT_S
        return self._until is None


def takes_files(folder: Path) -> bool:
    """True if a file of a page can be written: a full disk often still takes an empty one."""
    try:
        with tempfile.TemporaryFile(dir=folder, prefix="writable-") as file:
            file.write(bytes(4096))
    except OSError:
        return False
    return True
