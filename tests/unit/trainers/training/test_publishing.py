"""What a checkpoint holds besides the weights, and what is recorded of it."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tests.unit.trainers.training.bare_trainers import bare, config
from trainers.config import TrainingConfig
from trainers.errors import CheckpointError, SamplingInterruptedError
from trainers.policy.checkpoints import find_best, models_saved, publish_best, read_state, run_config
from trainers.process.events import NoEvents
from trainers.training.policy_trainer import PolicyTrainer
from trainers.training.sampling_trainer import SamplingTrainer
from trainers.training.train import train

CONFIG = config(kept_checkpoints=2)


class Told(NoEvents):
    """Writes down what is recorded, and which checkpoints there are when the record is made durable."""

    def __init__(self, output: Path) -> None:
        self.told, self._output = list[tuple[Any, ...]](), output

    def write(self, kind: str, **fields: Any) -> None:
        self.told.append((kind, fields))

    def sync(self) -> None:
        self.told.append(("sync", [entry.name for entry in self._output.glob("step-*")]))


def published(output: Path, step: int, *, rank: int = 0) -> list[tuple[Any, ...]]:
    """Publish a checkpoint after `step` device batches and 3 updates, in rollouts of 4 device batches."""
    events = Told(output)
    trainer = bare(
        PolicyTrainer,
        CONFIG,
        _rank=rank,
        _step=step,
        _batches_per_rollout=4,
        _buffered_inputs=[{"advantages": torch.tensor([0.5, -0.5])}],
        _frozen=SimpleNamespace(save=lambda folder: (folder / "probe.pt").write_text("frozen")),
        _state=lambda: {"step": 3},
        _folders=SimpleNamespace(output=output),
        _recorder=SimpleNamespace(events=events),
        _model_only=False,
        state=SimpleNamespace(global_step=3),
        accelerator=SimpleNamespace(is_main_process=rank == 0, wait_for_everyone=lambda: None),
    )
    trainer.publish_checkpoint()
    return events.told


def test_a_checkpoint_in_the_middle_of_a_rollout_holds_it_and_a_resumed_run_has_it_back(tmp_path: Path) -> None:
    told = published(tmp_path, step=5)
    checkpoint = tmp_path / "step-3"
    assert told == [("sync", []), ("checkpoint", {"step": 3, "path": str(checkpoint)})]
    assert {entry.name for entry in checkpoint.iterdir()} == {"rollout-0.pt", "probe.pt", "run_state.json"}
    assert read_state(checkpoint, CONFIG) == {"step": 3}
    loaded = list[Path]()
    resumed = bare(
        PolicyTrainer,
        CONFIG,
        _frozen=SimpleNamespace(load=loaded.append),
        accelerator=SimpleNamespace(device=torch.device("cpu")),
        state=SimpleNamespace(global_step=0),
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SamplingTrainer, "_load_optimizer_and_scheduler", lambda *_: None)
        resumed._load_optimizer_and_scheduler(None)
        assert not hasattr(resumed, "_buffered_inputs")
        resumed._load_optimizer_and_scheduler(str(checkpoint))
    (batch,) = resumed._buffered_inputs
    assert (resumed._step, batch["advantages"].tolist(), loaded) == (5, [0.5, -0.5], [checkpoint])


@pytest.mark.parametrize("step", [4, 8])
def test_a_checkpoint_between_rollouts_holds_none(step: int, tmp_path: Path) -> None:
    published(tmp_path, step)
    rollout = torch.load(tmp_path / "step-3" / "rollout-0.pt", weights_only=True)
    assert rollout == {"step": step, "device_batches": None}


def test_other_processes_add_their_part_of_the_rollout_and_the_first_publishes(tmp_path: Path) -> None:
    told = published(tmp_path, step=5, rank=1)
    assert told == []
    assert [path.name for path in tmp_path.rglob("*.*")] == [".unfinished", "rollout-1.pt"]
    published(tmp_path, step=5)
    assert {path.name for path in (tmp_path / "step-3").glob("rollout-*")} == {"rollout-0.pt", "rollout-1.pt"}


def test_as_many_checkpoints_are_kept_as_configured_and_one_that_is_the_model_alone(tmp_path: Path) -> None:
    for step in (1, 2):
        (tmp_path / f"step-{step}").mkdir()
    published(tmp_path, step=5)
    assert {entry.name for entry in tmp_path.glob("step-*")} == {"step-2", "step-3"}
    (tmp_path / "step-3").rename(tmp_path / "step-1")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PolicyTrainer, "_ends_with_model_only", True)
        published(tmp_path, step=8)
    assert {entry.name for entry in tmp_path.glob("step-*")} == {"step-3"}


@pytest.mark.parametrize(
    ("asked", "step", "evaluated", "alone"),
    [(True, 480, 480, True), (True, 480, 472, False), (True, 479, 479, False), (False, 480, 480, False)],
)
def test_only_the_last_checkpoint_may_be_the_model_alone_once_it_is_evaluated(
    asked: bool, step: int, evaluated: int, alone: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved = list[tuple[Any, ...]]()
    monkeypatch.setattr(SamplingTrainer, "_save_checkpoint", lambda trainer, *args: saved.append(args))
    trainer = bare(
        PolicyTrainer,
        config(steps=480),
        _model_only=asked,
        evaluated_step=evaluated,
        state=SimpleNamespace(global_step=step),
        args=SimpleNamespace(save_only_model=None),
    )
    trainer._save_checkpoint("model", "trial")
    assert (trainer.args.save_only_model, saved) == (alone, [("model", "trial")])


def keeping(output: Path, step: int, *, steps: int = 480) -> list[Any]:
    kept = {"_keep_models": (3, 8), "_model_only": True}
    trainer = bare(PolicyTrainer, config(steps=steps, kept_checkpoints=2), **kept, **saving(output))
    trainer._keep_model(step)
    return trainer._recorder.events.told


def saving(output: Path) -> dict[str, Any]:
    """The attributes by which a trainer saves its weights."""
    return {
        "_folders": SimpleNamespace(output=output),
        "_recorder": SimpleNamespace(events=Told(output)),
        "save_model": lambda folder, *, _internal_call: Path(folder).mkdir(parents=True),
        "accelerator": SimpleNamespace(is_main_process=True, wait_for_everyone=lambda: None),
        "any_process": bool,
    }


def test_the_model_of_an_update_that_is_asked_for_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "model-3"
    assert keeping(tmp_path, 3) == [("checkpoint", {"step": 3, "path": str(path), "model_only": True})]
    assert models_saved(tmp_path) == {3: path}
    assert run_config(path) == config(steps=480, kept_checkpoints=2)
    assert keeping(tmp_path, 4) == keeping(tmp_path, 8, steps=8) == []
    assert set(models_saved(tmp_path)) == {3}


def best(output: Path, step: int, value: float, config: TrainingConfig) -> None:
    unfinished = output / ".unfinished" / f"best-{step}"
    unfinished.mkdir(parents=True)
    publish_best(unfinished, output, config, step, value)


def test_the_best_weights_of_this_evaluation_are_recorded_with_their_value(tmp_path: Path) -> None:
    best(tmp_path, 4, 0.875, config(evaluation__temperature=0.5))
    trainer = bare(PolicyTrainer, CONFIG, **saving(tmp_path))
    for step, value in ((8, 0.5), (16, 0.25), (20, 0.5), (24, None), (32, 0.75)):
        trainer._keep_best(step, value)
    records = [
        {"step": step, "path": str(tmp_path / f"best-{step}"), "value": value} for step, value in ((8, 0.5), (32, 0.75))
    ]
    assert trainer._recorder.events.told == [("best", fields) for fields in records]
    assert find_best(tmp_path) == (tmp_path / "best-32", 32, 0.75)


def test_a_run_goes_on_with_the_best_weights_that_it_had_and_not_beside_later_checkpoints(tmp_path: Path) -> None:
    before, after = tmp_path / "1", tmp_path / "2"
    after.mkdir()
    published(before, step=8)
    settings = config(kept_checkpoints=2, keep_best=True, evaluation__temperature=0.5)
    best(before, 2, 0.5, settings)
    done = {"train": lambda **_: None, "end_server": lambda: None, "_model_only": False}
    trainer = bare(PolicyTrainer, settings, **saving(after), **done)
    trainer.run(before / "step-3")
    assert find_best(after) == (after / "best-2", 2, 0.5)
    (before / "step-9").mkdir()
    with pytest.raises(CheckpointError, match=r"later checkpoints \(step-9\); name another --output, or .* --resume$"):
        train(settings, before, NoEvents(), cache=tmp_path, resume_from=before / "step-3")
    assert {entry.name for entry in before.glob("step-*")} == {"step-3", "step-9"}


@pytest.mark.parametrize(("step", "there", "saves"), [(6, False, True), (6, True, False), (0, False, False)])
def test_a_stop_while_sampling_saves_what_no_checkpoint_has(
    step: int, there: bool, saves: bool, tmp_path: Path
) -> None:
    told = list[tuple[Any, ...]]()

    def train(resume_from_checkpoint: str | None) -> None:
        told.append(("train", resume_from_checkpoint))
        raise SamplingInterruptedError

    if there:
        (tmp_path / f"step-{step}").mkdir()
    trainer = bare(
        PolicyTrainer,
        config(),
        model="model",
        interrupted=False,
        train=train,
        end_server=lambda: told.append(("server ended",)),
        _save_checkpoint=lambda *args: told.append(("saved", *args)),
        publish_checkpoint=lambda: told.append(("published",)),
        _folders=SimpleNamespace(output=tmp_path),
        state=SimpleNamespace(global_step=step),
    )
    trainer.run(tmp_path / "step-2")
    saved = [("saved", "model", None), ("published",)] if saves else []
    assert told == [("train", str(tmp_path / "step-2")), *saved, ("server ended",)]
    assert trainer.interrupted


def test_a_run_begins_anew_without_a_checkpoint_and_ends_its_server_whatever_happens(tmp_path: Path) -> None:
    told = list[Any]()
    trainer = bare(
        PolicyTrainer,
        config(keep_best=True),
        interrupted=False,
        _model_only=False,
        train=lambda **named: told.append(named),
        end_server=lambda: told.append("server ended"),
        _folders=SimpleNamespace(output=tmp_path),
    )
    trainer.run(None)
    assert told == [{"resume_from_checkpoint": None}, "server ended"]
    assert not trainer.interrupted
    trainer.train = lambda **_: pytest.fail("broken")
    with pytest.raises(pytest.fail.Exception):
        trainer.run(None)
    assert told[2:] == ["server ended"]


def test_other_processes_save_the_best_weights_along_and_publish_nothing(tmp_path: Path) -> None:
    saved = list[str]()
    others = SimpleNamespace(is_main_process=False, wait_for_everyone=lambda: saved.append("waited"))
    attributes = saving(tmp_path) | {"accelerator": others, "any_process": lambda _: True}
    trainer = bare(PolicyTrainer, CONFIG, **attributes)
    trainer._keep_best(8, 0.5)
    assert saved == ["waited"]
    assert [entry.name for entry in (tmp_path / ".unfinished").iterdir()] == ["best-8"]
    assert trainer._recorder.events.told == []
