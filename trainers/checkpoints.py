"""Checkpoint folders `step-N`: complete once they have that name, the newest two kept."""

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from trainers.config import TrainingConfig
from trainers.errors import CheckpointError

UNFINISHED: Final = ".unfinished"
STATE_FILE: Final = "run_state.json"
KEPT: Final = 2
_NAME: Final = re.compile(r"step-(\d+)")
_MAY_CHANGE: Final = {"steps", "evaluation", "checkpoint_every_rollouts"}


def write_state(folder: Path, config: TrainingConfig, state: dict[str, Any]) -> None:
    """Write what a run carries over besides the model: its configuration, and counters."""
    content = {"config": config.model_dump(mode="json"), "state": state}
    (folder / STATE_FILE).write_text(json.dumps(content), encoding="utf-8")


def publish(unfinished: Path, output: Path, step: int) -> Path:
    """Give a finished folder its name in `output`, durably, and remove all but the newest `KEPT` checkpoints.

    Returns: the checkpoint's absolute path.
    """
    for file in unfinished.iterdir():
        _sync(file)
    _sync(unfinished)
    target = output.resolve() / f"step-{step}"
    shutil.rmtree(target, ignore_errors=True)
    unfinished.rename(target)
    _sync(output)
    for stale in sorted(steps_saved(output))[:-KEPT]:
        shutil.rmtree(output / f"step-{stale}")
    return target


def steps_saved(output: Path) -> list[int]:
    """The steps of the complete checkpoints in `output`."""
    return [int(match[1]) for entry in output.iterdir() if (match := _NAME.fullmatch(entry.name))]


def read_state(checkpoint: Path, config: TrainingConfig) -> dict[str, Any]:
    """The counters stored by `write_state`, after checking that `config` continues the checkpoint's run.

    Raises: CheckpointError, if the folder is no checkpoint or belongs to a configuration that differs in more than its
        length, evaluation and checkpoint interval.
    """
    try:
        content = json.loads((checkpoint / STATE_FILE).read_text(encoding="utf-8"))
        saved = TrainingConfig.model_validate(content["config"])
    except (OSError, ValueError, KeyError, ValidationError) as error:
        raise CheckpointError(f"{checkpoint} is no complete checkpoint ({error}); name a folder step-N") from error
    before, now = (item.model_dump(mode="json", exclude=_MAY_CHANGE) for item in (saved, config))
    if differing := [name for name in now if now[name] != before[name]]:
        raise CheckpointError(
            f"{checkpoint} was made with another {', '.join(differing)}; "
            f"only {', '.join(sorted(_MAY_CHANGE))} may differ"
        )
    return content["state"]


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
