"""Opens files in an attempt's folder, where a program of somebody else's may have put anything under any name."""

import errno
import os
import shutil
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO, Final

_REFUSED: Final = (errno.ELOOP, errno.ENXIO, errno.EACCES, errno.EPERM, errno.ENOTDIR)
"""Errors of opening a link, a socket, a file without permission or below a file; others are the machine's."""


class NotPlain(Exception):
    """A name leads to something else than an ordinary file that can be read; the message says so."""


def open_plain(path: Path) -> BinaryIO:
    """Open an ordinary file to read it; it never blocks, as a FIFO would.

    Raises: FileNotFoundError; NotPlain, if it is a folder, a link, a FIFO or the like; OSError, if the disk fails.
    """
    refusal = f"{path} is no ordinary file that can be read, but a folder, a link or the like; write a plain file there"
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in _REFUSED:
            raise NotPlain(refusal) from error
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise NotPlain(refusal)
    return open(descriptor, "rb")


def is_there(path: str | Path) -> bool:
    """True if something has this path; False also where it may not be looked for, or no path can be like this."""
    return os.path.exists(path)  # Path.exists raises then


def make_room(directory: Path, names: Iterable[str]) -> None:
    """Remove what has one of these names and is no ordinary file, which would be written elsewhere, or never.

    Raises: OSError, if it cannot be removed.
    """
    for path in (directory / name for name in names):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif path.is_symlink() or (path.exists() and not path.is_file()):
            path.unlink()


def read_plain(path: Path, most: int) -> bytes:
    """Return the last bytes of an ordinary file, at most so many; nothing if there is none, or it is something else."""
    try:
        with open_plain(path) as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - most))
            return file.read(most)
    except (FileNotFoundError, NotPlain):
        return b""
