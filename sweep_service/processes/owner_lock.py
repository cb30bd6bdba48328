"""A file that one process owns, and that says which one. The kernel frees it when that process ends, in any way."""

import fcntl
import os
from collections.abc import Callable
from pathlib import Path
from typing import IO

from sweep_service.errors import ServiceError


def own(path: Path, refusal: Callable[[str], ServiceError]) -> IO[str]:
    """Own a file, which is made if it is missing, until the returned file is closed or this process ends.

    Args:
        refusal: makes the error if another process owns the file, from its pid, as far as the file says.
    Raises: that error; OSError, if the file cannot be opened.
    """
    lock = path.open("a+")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.seek(0)
        owner = lock.read().strip() or "unknown"
        lock.close()
        raise refusal(owner) from None
    lock.truncate(0)
    lock.write(f"{os.getpid()}\n")
    lock.flush()
    return lock
