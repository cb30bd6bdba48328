"""Removal of files that earlier attempts of a trial left on the disk and nobody needs any more."""

import shutil
from contextlib import suppress
from pathlib import Path

from trainers.policy.checkpoints import UNFINISHED, find_best, newest, steps_saved


def remove_leftovers(directory: Path, resume_from: Path | None, *, ended: bool = False) -> None:
    """Remove checkpoints of a trial's other attempts, except the one from which this attempt resumes.

    Records stay. What cannot be removed now is left to the next attempt. An attempt that starts from scratch removes
    no checkpoint before it has one itself, because those of earlier attempts may only be unreachable for a while.

    Args:
        directory: folder of this attempt; the others are beside it, named by their numbers.
        resume_from: the checkpoint that this attempt started from.
        ended: whether this attempt has trained to the end; with a checkpoint of its own it needs no other any more.
    """
    has_own = ended and newest(directory) is not None
    directory, needed = directory.resolve(), None if has_own or resume_from is None else resume_from.resolve()
    for other in directory.parent.iterdir():
        if not other.name.isdecimal() or other.name == directory.name or not other.is_dir():
            continue
        if has_own or needed is not None:
            _remove_complete(other, needed)
        shutil.rmtree(other / UNFINISHED, ignore_errors=True)


def _remove_complete(other: Path, needed: Path | None) -> None:
    keep = {needed}
    if needed is not None and needed.parent == other and (best := find_best(other)):
        keep.add(best.path)
    for folder in [*(other / f"step-{step}" for step in steps_saved(other)), *other.glob("best-*")]:
        if folder not in keep:
            _remove(folder, other / UNFINISHED)


def _remove(folder: Path, unfinished: Path) -> None:
    """Remove a folder, renaming it first, so that an interrupted removal leaves nothing that looks complete."""
    with suppress(OSError):
        unfinished.mkdir(exist_ok=True)
        folder.rename(unfinished / f"removed-{folder.name}")
