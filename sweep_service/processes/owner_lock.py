"""A file that one process owns, and that says which one. The kernel frees it when that process ends, in any way."""

import fcntl
import os
from pathlib import Path
from typing import IO


class Owned(Exception):
    """Another process owns the file; `owner` is its pid, as far as the file says."""

    def __init__(self, path: Path, owner: str) -> None:
        super().__init__(f"process {owner} owns {path}")
        self.owner = owner


def own(path: Path) -> IO[str]:
    """Own a file, which is made if it is missing, until the returned file is closed or this process ends.

    Raises: Owned; OSError, if the file cannot be opened.
    """
    lock = path.open("a+")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.seek(0)
        owner = lock.read().strip() or "unknown"
        lock.close()
        raise Owned(path, owner) from None
    lock.truncate(0)
    lock.write(f"{os.getpid()}\n")
    lock.flush()
    return lock
