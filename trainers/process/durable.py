"""Writes files and folders that are whole or absent, also after a crash of the machine."""

import os
from pathlib import Path


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file so that `path` never shows a part of it; the earlier file stays until the new one is whole.

    One process at a time may write it.
    """
    unfinished = path.with_name(f"{path.name}.unfinished")
    with unfinished.open("wb") as file:
        file.write(content if isinstance(content, bytes) else content.encode())
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)
    sync(path.parent)


def move_whole(unfinished: Path, target: Path) -> None:
    """Give a finished folder of files its name, once its content is on the disk; `target` does not exist yet."""
    for file in unfinished.iterdir():
        sync(file)
    sync(unfinished)
    unfinished.rename(target)
    sync(target.parent)


def sync(path: Path) -> None:
    """Return once a file's content, or a folder's list of names, is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
