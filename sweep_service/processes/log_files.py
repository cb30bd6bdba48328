"""Reads parts of the logs that trainers and runners write, and makes them fit to be shown.

A log lies in the storage, where code of users writes, too: no path leads out of there, and its text is never trusted.
"""

import os
import stat
from pathlib import Path
from typing import Final, NamedTuple

from sweep_service.errors import NoLog
from sweep_service.processes.child_processes import this_host
from trainers.printable import printable

LOG_FILE: Final = "stderr.log"
"""Name of the file in an attempt's folder to which its trainer prints."""
MAX_PART: Final = 1 << 20
"""Largest number of bytes of one part."""
MAX_LOG: Final = 256 << 20
"""Largest number of bytes of a trainer's log: of a longer one the end is kept."""
KEPT: Final = 16 << 20


class LogBytes(NamedTuple):
    """A part of a log."""

    content: bytes
    offset: int
    """Number of bytes of the log before the part."""
    size: int
    """Number of bytes that the log has now."""

    @property
    def next_offset(self) -> int:
        """Number of bytes of the log up to the end of the part."""
        return self.offset + len(self.content)


def read_log(path: Path, storage: Path, offset: int = 0, limit: int = MAX_PART, tail: int | None = None) -> LogBytes:
    """Return a part of a log.

    Args:
        storage: the folder below which the log must really lie, whatever links lead to it.
        offset, limit: number of bytes to leave out at the beginning, and most bytes to return.
        tail: return so many last lines instead, as far as `limit` allows.
    Raises: FileNotFoundError, if there is no such file; NoLog, if it cannot be read, or is not a log.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb", buffering=0) as file:
            status = os.fstat(descriptor)
            real = Path(os.readlink(f"/proc/self/fd/{descriptor}"))  # where it is, not where it was at the last look
            if not stat.S_ISREG(status.st_mode) or not real.is_relative_to(storage.resolve()):
                raise NoLog(f"{path} is not a file of the storage {storage}, so it is not shown as a log")
            size = status.st_size
            first = min(offset, size) if tail is None else max(0, size - limit)
            file.seek(first)
            content = file.read(min(limit, size - first))
    except FileNotFoundError:
        raise
    except OSError as error:
        raise NoLog(f"the log {path} cannot be read on {this_host()}: {error.strerror or error}") from error
    if tail is None:
        return LogBytes(content, first, size)
    before, *last_lines = content.removesuffix(b"\n").rsplit(b"\n", tail)
    end = content[len(before) + 1 :] if len(last_lines) == tail else content  # there may be fewer lines
    return LogBytes(end, first + len(content) - len(end), size)


def settled(text: str) -> str:
    """Return text as a terminal shows it in the end: of each progress bar, printable, only the last state."""
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in printable(text).split("\n"))


def shorten_log(path: Path) -> None:
    """Leave the end of a log that has become too long, and above it how much is missing.

    Whoever writes it appends, and goes on below; what it writes at this very moment may be lost, too.
    """
    try:
        if path.lstat().st_size <= MAX_LOG:
            return
        with os.fdopen(os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK), "r+b") as log:
            log.seek(-KEPT, os.SEEK_END)
            end = log.read(KEPT)
            left_out = log.tell() - len(end)
            log.truncate(0)
            log.seek(0)
            log.write(b"(%d bytes of this log were left out, for it had become too long)\n" % left_out + end)
    except OSError:  # no file, or a disk in trouble: no training ends for its log
        return
