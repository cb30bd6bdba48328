"""Checkpoint folders `step-N`: complete once they have that name; only the newest are kept."""

import json
import re
import shutil
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from trainers.config import TrainingConfig
from trainers.durable import move_whole
from trainers.errors import CheckpointError

UNFINISHED: Final = ".unfinished"
STATE_FILE: Final = "run_state.json"
_NAME: Final = re.compile(r"step-(\d+)")
_MAY_CHANGE: Final = {"steps", "evaluation", "checkpoint_every_rollouts", "kept_checkpoints"}


def write_state(folder: Path, config: TrainingConfig, state: dict[str, Any]) -> None:
    """Write what a run carries over besides the model: its configuration, and counters."""
    content = {"config": config.model_dump(mode="json"), "state": state}
    (folder / STATE_FILE).write_text(json.dumps(content), encoding="utf-8")


def publish(unfinished: Path, output: Path, step: int, kept: int) -> Path:
    """Give a finished folder its name in `output`, durably, and keep it and the `kept` - 1 newest others.

    A checkpoint of the same step that is there already is complete and of the same run: it stays.

    Returns: the checkpoint's absolute path.
    """
    target = checkpoint_folder(output.resolve(), step)
    if target.exists():
        shutil.rmtree(unfinished)
    else:
        move_whole(unfinished, target)
    others = sorted(set(steps_saved(output)) - {step})  # newer ones, too, after resuming from an older checkpoint
    for stale in others[: max(0, len(others) - kept + 1)]:
        _remove(checkpoint_folder(output, stale), output / UNFINISHED)
    return target


def newest(output: Path) -> Path | None:
    """The newest complete checkpoint in `output`, if there is one."""
    steps = steps_saved(output) if output.is_dir() else []
    return checkpoint_folder(output, max(steps)) if steps else None


def checkpoint_folder(output: Path, step: int) -> Path:
    """Where the checkpoint of a step is, or would be."""
    return output / f"step-{step}"


def _remove(checkpoint: Path, unfinished: Path) -> None:
    """Take a checkpoint's name away before its files: one that is cut short must not look complete."""
    unfinished.mkdir(exist_ok=True)
    doomed = checkpoint.rename(unfinished / f"removed-{checkpoint.name}")
    shutil.rmtree(doomed)


def steps_saved(output: Path) -> list[int]:
    """The steps of the complete checkpoints in `output`."""
    return [int(match[1]) for entry in output.iterdir() if (match := _NAME.fullmatch(entry.name))]


def read_state(checkpoint: Path, config: TrainingConfig) -> dict[str, Any]:
    """The counters stored by `write_state`, after checking that `config` continues the checkpoint's run.

    Raises: CheckpointError, if the folder is no checkpoint, belongs to a configuration that differs in more than its
        length, evaluation and checkpoint interval, or is past the end of the run.
    """
    try:
        content = json.loads((checkpoint / STATE_FILE).read_text(encoding="utf-8"))
        saved = TrainingConfig.model_validate(content["config"])
    except (OSError, ValueError, KeyError, ValidationError) as error:
        raise CheckpointError(f"{checkpoint} is no complete checkpoint ({error}); name a folder step-N") from error
    before, now = (_shown(item.model_dump(mode="json", exclude=_MAY_CHANGE)) for item in (saved, config))
    pairs = {name: (before.get(name, "not set"), now.get(name, "not set")) for name in {**before, **now}}
    if differing := [f"{name} {old} (now {new})" for name, (old, new) in pairs.items() if old != new]:
        raise CheckpointError(
            f"{checkpoint} was made with {', '.join(differing)}; only {', '.join(sorted(_MAY_CHANGE))} may differ"
        )
    if (step := content["state"]["step"]) > config.steps:
        raise CheckpointError(f"{checkpoint} is past steps {config.steps}; raise steps to {step} or more")
    return content["state"]


def _shown(settings: dict[str, Any], prefix: str = "") -> dict[str, str]:
    """Settings by their dotted names, as they are told to people."""
    shown = dict[str, str]()
    for name, value in settings.items():
        shown |= _shown(value, f"{prefix}{name}.") if isinstance(value, dict) else {f"{prefix}{name}": repr(value)}
    return shown
