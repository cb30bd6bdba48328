"""Disk use of a folder."""

import errno
import os
from pathlib import Path
from typing import Final, NamedTuple

_NOT_COUNTED: Final = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG)


class DiskUse(NamedTuple):
    """The disk that a folder takes, with all that is below it."""

    bytes: int
    files: int


def disk_use(folder: Path) -> DiskUse:
    """Return the disk that removing a folder frees; none, if there is no folder. Links are counted, not followed.

    Files that lie deeper than a path can reach are not counted.

    Raises: OSError, if something below it cannot be looked at.
    """
    size, files, waiting, linked = 0, 0, [folder], set[tuple[int, int]]()
    while waiting:
        try:
            entries = list(os.scandir(waiting.pop()))
        except OSError as error:
            if error.errno not in _NOT_COUNTED:
                raise
            continue
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                waiting.append(Path(entry.path))
                continue
            try:
                status = entry.stat(follow_symlinks=False)
            except OSError as error:
                if error.errno not in _NOT_COUNTED:
                    raise
                continue
            files += 1
            if status.st_nlink > 1:
                if (status.st_dev, status.st_ino) in linked:
                    continue
                linked.add((status.st_dev, status.st_ino))
            size += status.st_blocks * 512
    return DiskUse(size, files)


def size_text(size: int) -> str:
    """Return a number of bytes, such as `3.4 GiB`."""
    amount, units = float(size), ["B", "KiB", "MiB", "GiB", "TiB"]
    while amount >= 1023.5 and len(units) > 1:
        amount, units = amount / 1024, units[1:]
    return f"{amount:.3g} {units[0]}" if amount < 99.5 else f"{amount:.0f} {units[0]}"
