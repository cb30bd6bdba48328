"""Removal of files that attempts of a trial left on the disk and nobody needs any more."""

import shutil
from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path

from sweep_service.sweep.records import Attempt
from trainers.policy.checkpoints import UNFINISHED, find_best, models_saved, newest, steps_saved


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
    """Remove checkpoints, renaming them first, so that an interrupted removal leaves nothing that looks complete."""
    keep, unfinished = {needed}, other / UNFINISHED
    if needed is not None and needed.parent == other and (best := find_best(other)):
        keep.add(best.path)
    for folder in [*(other / f"step-{step}" for step in steps_saved(other)), *other.glob("best-*")]:
        if folder not in keep:
            with suppress(OSError):
                unfinished.mkdir(exist_ok=True)
                folder.rename(unfinished / f"removed-{folder.name}")


def remove_models(attempts: Iterable[Attempt], steps: Collection[int]) -> None:
    """Remove the models that a trial kept for evaluations alone; no later run goes on from them.

    Args:
        attempts: all of the trial; if it was tried again, two of them may have kept the same model.
        steps: optimizer steps of the models that are removed.
    """
    for directory in (Path(attempt.directory) for attempt in attempts):
        for step, folder in (models_saved(directory) if directory.is_dir() else {}).items():
            if step in steps:
                shutil.rmtree(folder, ignore_errors=True)


def remove_unneeded(attempts: Iterable[Attempt]) -> None:
    """Remove files of attempts whose sweep ends: models kept for evaluations, and everything unfinished.

    An evaluation that was killed may have left a whole model among the latter.
    """
    for directory in (Path(attempt.directory) for attempt in attempts):
        models = models_saved(directory) if directory.is_dir() else {}
        for folder in (*models.values(), directory / UNFINISHED):
            shutil.rmtree(folder, ignore_errors=True)
