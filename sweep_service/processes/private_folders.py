"""Keeps the data folder to its owner: nobody else on the machine may read it or put anything into it."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from sweep_service.errors import ServiceError
from trainers.process.environment import UMASK

_DEPTH: Final = 2
"""Folders below the data folder into which `open_paths` looks; deeper ones are shut in by these."""


class NotPrivate(ServiceError):
    """A folder of ours is somebody else's, or open to others."""


def make_private(folder: Path) -> list[Path]:
    """Make a folder that only its owner may enter, or take others' rights on it and on what lies in it.

    Returns: what was open to others until now.
    Raises: NotPrivate, if it is somebody else's, or if a symbolic link of somebody else's leads there; OSError.
    """
    for link in _links(folder):
        if (owner := link.lstat().st_uid) not in (os.geteuid(), 0):
            raise NotPrivate(
                f"{link} is a symbolic link of user {owner}, who may lead it anywhere; "
                "set SWEEPS_HOME to a folder of your own"
            )
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if (owner := folder.stat().st_uid) != os.geteuid():
        raise NotPrivate(f"{folder} belongs to user {owner}, not to you; set SWEEPS_HOME to a folder of your own")
    mended = list(open_paths(folder))
    for path in mended:
        path.chmod(stat.S_IMODE(path.stat().st_mode) & ~UMASK)
    return mended


def _links(folder: Path) -> list[Path]:
    """Return the symbolic links through which one comes to a folder: itself, its parents, and where these lead."""
    links, paths = list[Path](), [folder.absolute()]
    for path in paths:
        for place in (path, *path.parents):
            if place.is_symlink() and place not in links:
                links.append(place)
                paths.append(place.parent / place.readlink())
    return links


def open_paths(folder: Path) -> Iterator[Path]:
    """Yield the folder, and what lies in it up to two folders deep, wherever others than the owner have any right."""
    waiting = [(folder.resolve(), 0)]
    while waiting:
        path, depth = waiting.pop()
        status = path.lstat()
        if stat.S_ISLNK(status.st_mode) or status.st_uid != os.geteuid():
            continue  # its rights are not ours to take; the folder around it shuts it in
        if stat.S_IMODE(status.st_mode) & UMASK:
            yield path
        if depth <= _DEPTH and stat.S_ISDIR(status.st_mode):
            waiting += [(path / name, depth + 1) for name in os.listdir(path)]
