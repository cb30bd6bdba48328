"""Locks for work that several processes need and one of them does."""

import fcntl
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_POLL_S: Final = 0.2


@contextmanager
def locked(path: Path, while_waiting: Callable[[], None] = lambda: None) -> Generator[None]:
    """Hold an exclusive lock on the file `path`; the kernel frees it when its holder dies, however it dies.

    Args:
        path: made if it does not exist, and left there; its folder exists.
        while_waiting: called a few times a second while another holds the lock; what it raises ends the waiting.
    """
    with path.open("a") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                while_waiting()
                time.sleep(_POLL_S)
        yield
