"""What a resumed run takes over from the folders that it finds."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from trainers.config import TrainingConfig
from trainers.errors import CheckpointError
from trainers.policy.checkpoints import find_best, publish, publish_best, write_state
from trainers.process.events import NoEvents
from trainers.training.policy_trainer import PolicyTrainer
from trainers.training.train import train

CONFIG = TrainingConfig(keep_best=True)


def checkpoint(output: Path, step: int) -> Path:
    unfinished = output / ".unfinished" / f"checkpoint-{step}"
    unfinished.mkdir(parents=True)
    write_state(unfinished, CONFIG, {"step": step})
    return publish(unfinished, output, step, 2)


def best(output: Path, step: int, value: float, config: TrainingConfig = CONFIG) -> Path:
    unfinished = output / ".unfinished" / f"best-{step}"
    unfinished.mkdir(parents=True)
    return publish_best(unfinished, output, config, step, value)


def trainer(output: Path) -> Any:
    return SimpleNamespace(
        _config=CONFIG,
        _folders=SimpleNamespace(output=output),
        _recorder=SimpleNamespace(events=NoEvents()),
        accelerator=SimpleNamespace(is_main_process=True, wait_for_everyone=lambda: None),
        any_process=bool,
        save_model=lambda folder, **_: Path(folder).mkdir(parents=True),
        train=lambda **_: None,
        end_server=lambda: None,
    )


def test_weights_that_were_best_in_another_evaluation_make_way_for_the_first_of_this_one(tmp_path: Path) -> None:
    best(tmp_path, 8, 0.75, TrainingConfig.model_validate({"evaluation": {"temperature": 0.5}}))
    PolicyTrainer._keep_best(trainer(tmp_path), 16, 0.25)
    assert find_best(tmp_path) == (tmp_path / "best-16", 16, 0.25)
    PolicyTrainer._keep_best(trainer(tmp_path), 24, 0.25)
    assert find_best(tmp_path) == (tmp_path / "best-16", 16, 0.25)


@pytest.mark.parametrize(("step", "carried"), [(8, True), (16, False)])
def test_a_resumed_run_begins_with_the_best_weights_that_it_had(step: int, carried: bool, tmp_path: Path) -> None:
    before, after = tmp_path / "1", tmp_path / "2"
    after.mkdir()
    best(before, step, 0.5)
    PolicyTrainer.run(trainer(after), checkpoint(before, 8))
    assert (find_best(after) is not None) == carried


def test_a_run_does_not_go_on_beside_later_checkpoints(tmp_path: Path) -> None:
    first = checkpoint(tmp_path, 8)
    checkpoint(tmp_path, 16)
    with pytest.raises(
        CheckpointError, match=r"later checkpoints \(step-16\); name another --output, or .* with --resume$"
    ):
        train(CONFIG, tmp_path, NoEvents(), cache=tmp_path, resume_from=first)
    assert {entry.name for entry in tmp_path.glob("step-*")} == {"step-8", "step-16"}
