"""Owns the folders that a run leaves: checkpoints `step-N`, the newest of them, and models alone, `best-N`, `model-N`.

Each is complete once it has its name.
"""

import json
import math
import re
import shutil
from pathlib import Path
from typing import Any, Final, NamedTuple

from pydantic import ValidationError

from trainers.config import EvaluationConfig, TrainingConfig
from trainers.errors import CheckpointError
from trainers.process.durable import move_whole

UNFINISHED: Final = ".unfinished"
STATE_FILE: Final = "run_state.json"
BEST_FILE: Final = "best.json"
MODEL_FILE: Final = "model.json"
_NAME: Final = re.compile(r"step-(\d+)")
_BEST_NAME: Final = re.compile(r"best-\d+")
_MODEL_NAME: Final = re.compile(r"model-(\d+)")
_MAY_CHANGE: Final = {"steps", "evaluation", "checkpoint_every_rollouts", "kept_checkpoints", "keep_best"}
_STAYS: Final = "evaluation.probe_completions"
"""Part of `evaluation` that may not change: completions are frozen once, when a run begins."""


class KeptFolders(NamedTuple):
    """Largest number of folders that a sweep's trials have on the disk."""

    checkpoints: int
    """Number of folders with all that is needed to go on."""
    models: int
    """Number of folders with nothing but weights (of LoRA: adapters) and tokenizer."""


def kept_folders(config: TrainingConfig, *, trials: int, running: int) -> KeptFolders:
    """Return the most that this many trials have, of which some train at a time.

    A trial leaves its last model, and its best where the configuration asks for it. While it trains, a folder is
    removed only once its successor is complete.
    """
    best = int(config.keep_best)
    return KeptFolders(running * (config.kept_checkpoints + 1), trials * (1 + best) + running * 2 * best)


def write_state(folder: Path, config: TrainingConfig, state: dict[str, Any]) -> None:
    """Write a run's configuration and counters into a checkpoint.

    A true `model_only` among the counters says that besides them the model alone is there, for the run has ended.
    """
    content = {"config": config.model_dump(mode="json"), "state": state}
    (folder / STATE_FILE).write_text(json.dumps(content), encoding="utf-8")


def publish(unfinished: Path, output: Path, step: int, keep: int) -> Path:
    """Give a finished checkpoint its name in `output`, and remove all others but the `keep` - 1 newest.

    Returns: the checkpoint's absolute path.
    """
    target = checkpoint_folder(output.resolve(), step)
    _give_name(unfinished, target)
    others = sorted(set(steps_saved(output)) - {step})
    for stale in others[: max(0, len(others) - keep + 1)]:
        _remove(checkpoint_folder(output, stale), output / UNFINISHED)
    return target


def _give_name(unfinished: Path, target: Path) -> None:
    """Name a finished folder, durably. If the name is taken, that folder is complete, of the same run, and stays."""
    if target.exists():
        shutil.rmtree(unfinished)
    else:
        move_whole(unfinished, target)


def publish_model(unfinished: Path, output: Path, config: TrainingConfig, step: int) -> Path:
    """Give a finished model folder the name `model-N`; no later one replaces it, and no run continues from it.

    Returns: its absolute path.
    """
    content = {"config": config.model_dump(mode="json"), "step": step}
    (unfinished / MODEL_FILE).write_text(json.dumps(content), encoding="utf-8")
    target = output.resolve() / f"model-{step}"
    _give_name(unfinished, target)
    return target


def models_saved(output: Path) -> dict[int, Path]:
    """Return the folders `model-N` in `output` by their steps."""
    return {int(match[1]): entry for entry in output.iterdir() if (match := _MODEL_NAME.fullmatch(entry.name))}


class Best(NamedTuple):
    """A model folder `best-N` and the evaluation for which it is kept."""

    path: Path
    step: int
    value: float
    """Value of eval/avg_at_k at that evaluation."""


def publish_best(unfinished: Path, output: Path, config: TrainingConfig, step: int, value: float) -> Path:
    """Give a finished model folder the name `best-N` and remove all others, also one of the same step.

    Returns: its absolute path.
    """
    content = {"config": config.model_dump(mode="json"), "step": step, "value": value}
    (unfinished / BEST_FILE).write_text(json.dumps(content), encoding="utf-8")
    target = output.resolve() / f"best-{step}"
    if target.exists():  # of the same step, evaluated otherwise or not as good
        _remove(target, output / UNFINISHED)
    move_whole(unfinished, target)
    for entry in output.glob("best-*"):
        if _BEST_NAME.fullmatch(entry.name) and entry.name != target.name:
            _remove(entry, output / UNFINISHED)
    return target


def find_best(output: Path, evaluation: EvaluationConfig | None = None, last_step: float = math.inf) -> Best | None:
    """Return the best model in a run's folder; after a crash there may be two.

    Args:
        evaluation: only models that were evaluated so; None: however they were.
        last_step: only models of this step or an earlier one.
    """
    models = list[Best]()
    for path in output.glob(f"best-*/{BEST_FILE}"):
        if _BEST_NAME.fullmatch(path.parent.name):
            content = json.loads(path.read_text(encoding="utf-8"))
            models.append(Best(path.parent, content["step"], content["value"]))
    comparable = [
        best
        for best in models
        if best.step <= last_step and (evaluation is None or run_config(best.path).evaluation == evaluation)
    ]
    return max(comparable, key=lambda best: (best.value, -best.step), default=None)


def carry_best(checkpoint: Path, output: Path, evaluation: EvaluationConfig) -> None:
    """Copy the best model that a resumed run had at `checkpoint` into the folder in which it resumes.

    A model of a later step is not of this run, and one that was evaluated otherwise cannot be compared with its own.
    """
    if checkpoint.parent.resolve() == output.resolve():
        return
    step = json.loads((checkpoint / STATE_FILE).read_text(encoding="utf-8"))["state"]["step"]
    best = find_best(checkpoint.parent, evaluation, last_step=step)
    if best is None:
        return
    unfinished = output / UNFINISHED / best.path.name
    shutil.rmtree(unfinished, ignore_errors=True)
    shutil.copytree(best.path, unfinished)
    _give_name(unfinished, output / best.path.name)


def run_config(folder: Path) -> TrainingConfig:
    """Read the configuration of the run that left this folder, `step-N`, `best-N` or `model-N`.

    Raises: CheckpointError, if it is none of them.
    """
    for name in (STATE_FILE, BEST_FILE, MODEL_FILE):
        try:
            return TrainingConfig.model_validate(json.loads((folder / name).read_text(encoding="utf-8"))["config"])
        except FileNotFoundError:
            continue
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise CheckpointError(
                f"{folder / name} cannot be read ({error}); name a folder step-N, best-N or model-N"
            ) from error
    raise CheckpointError(
        f"{folder} was not written by a run: there is no {STATE_FILE}; name a folder step-N, best-N or model-N"
    )


def newest(output: Path) -> Path | None:
    """Return the newest complete checkpoint in `output`, if there is one."""
    steps = steps_saved(output) if output.is_dir() else []
    return checkpoint_folder(output, max(steps)) if steps else None


def checkpoint_folder(output: Path, step: int) -> Path:
    """Return the path that the checkpoint of a step has, or would have."""
    return output / f"step-{step}"


def refuse_later(output: Path, checkpoint: Path, step: int) -> None:
    """Refuse to go on from a checkpoint of `step` where later ones are, which would be taken for those of this run.

    Raises: CheckpointError.
    """
    if later := sorted(saved for saved in steps_saved(output) if saved > step):
        names = ", ".join(f"step-{saved}" for saved in later)
        raise CheckpointError(
            f"{checkpoint} cannot be continued in {output}, which holds later checkpoints ({names}); name another "
            "--output, or go on from the newest with --resume"
        )


def _remove(checkpoint: Path, unfinished: Path) -> None:
    """Remove a checkpoint, renaming it first, so that an interrupted removal leaves nothing that looks complete."""
    unfinished.mkdir(exist_ok=True)
    doomed = checkpoint.rename(unfinished / f"removed-{checkpoint.name}")
    shutil.rmtree(doomed)


def steps_saved(output: Path) -> list[int]:
    """List the steps of the complete checkpoints in `output`."""
    return [int(match[1]) for entry in output.iterdir() if (match := _NAME.fullmatch(entry.name))]


def read_state(checkpoint: Path, config: TrainingConfig) -> dict[str, Any]:
    """Read the counters stored by `write_state`, after checking that `config` continues the checkpoint's run.

    Raises: CheckpointError, if the folder is not a checkpoint, its configuration differs in more than `_MAY_CHANGE`, it
        is past the end of the run, or it holds the model alone.
    """
    try:
        content = json.loads((checkpoint / STATE_FILE).read_text(encoding="utf-8"))
        saved = TrainingConfig.model_validate(content["config"])
    except (OSError, ValueError, KeyError, ValidationError) as error:
        raise CheckpointError(f"{checkpoint} is not a complete checkpoint ({error}); name a folder step-N") from error
    before, now = (
        _shown(one.model_dump(mode="json", exclude=_MAY_CHANGE)) | {_STAYS: repr(one.evaluation.probe_completions)}
        for one in (saved, config)
    )
    pairs = {name: (before.get(name, "not set"), now.get(name, "not set")) for name in {**before, **now}}
    if differing := [f"{name} {old} (now {new})" for name, (old, new) in pairs.items() if old != new]:
        raise CheckpointError(
            f"{checkpoint} was made with {', '.join(differing)}; only {', '.join(sorted(_MAY_CHANGE))} may differ, and "
            f"not {_STAYS}"
        )
    state: dict[str, Any] = content["state"]
    if (step := state["step"]) > config.steps:
        raise CheckpointError(f"{checkpoint} is past steps {config.steps}; raise steps to {step} or more")
    if state.get("model_only") and step < config.steps:
        raise CheckpointError(
            f"{checkpoint} holds the model alone: its run was to end there, so its optimizer was not kept; to train "
            f"for {config.steps} steps start a new run"
        )
    return state


def _shown(settings: dict[str, Any], prefix: str = "") -> dict[str, str]:
    """Return settings by their dotted names, as messages show them."""
    shown = dict[str, str]()
    for name, value in settings.items():
        shown |= _shown(value, f"{prefix}{name}.") if isinstance(value, dict) else {f"{prefix}{name}": repr(value)}
    return shown
