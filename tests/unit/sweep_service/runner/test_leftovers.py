from pathlib import Path

import pytest

from sweep_service.runner.leftovers import remove_leftovers
from trainers.config import TrainingConfig
from trainers.policy.checkpoints import publish_best


@pytest.fixture
def trial(tmp_path: Path) -> Path:
    """The folder of a trial with two earlier attempts and one at work."""
    for attempt, steps in {"1": (8, 16), "2": (24, 32), "3": ()}.items():
        directory = tmp_path / attempt
        for step in steps:
            (directory / f"step-{step}").mkdir(parents=True)
        unfinished = directory / ".unfinished" / "best-8"
        unfinished.mkdir(parents=True)
        (directory / "events.jsonl").touch()
        if attempt != "3":
            publish_best(unfinished, directory, TrainingConfig(), 8, 0.5)
    (tmp_path / "step-99").mkdir()  # of nobody
    return tmp_path


def names(directory: Path) -> set[str]:
    return {entry.name for entry in directory.iterdir()}


def test_only_what_an_attempt_goes_on_from_stays_of_the_earlier_ones(trial: Path) -> None:
    remove_leftovers(trial / "3", trial / "2" / "step-32")
    assert names(trial / "1") == {"events.jsonl"}
    assert names(trial / "2") == {"events.jsonl", "step-32", "best-8"}
    assert names(trial / "3") == {"events.jsonl", ".unfinished"}
    assert names(trial) == {"1", "2", "3", "step-99"}


def test_a_finished_attempt_needs_nothing_but_its_own(trial: Path) -> None:
    (trial / "3" / "step-40").mkdir()
    remove_leftovers(trial / "3", trial / "2" / "step-32", ended=True)
    assert names(trial / "2") == {"events.jsonl"}
    assert names(trial / "3") == {"events.jsonl", ".unfinished", "step-40"}


def test_an_attempt_that_found_its_trial_finished_keeps_the_checkpoint_that_says_so(trial: Path) -> None:
    remove_leftovers(trial / "3", trial / "2" / "step-32", ended=True)
    assert names(trial / "2") == {"events.jsonl", "step-32", "best-8"}


def test_a_checkpoint_is_known_by_whatever_name_the_storage_has(trial: Path, tmp_path: Path) -> None:
    linked = tmp_path.parent / f"{tmp_path.name}-linked"
    linked.symlink_to(trial)  # trainers record the checkpoint's path without links
    remove_leftovers(linked / "3", trial / "2" / "step-32")
    assert names(trial / "2") == {"events.jsonl", "step-32", "best-8"}


def test_an_attempt_that_begins_anew_removes_no_checkpoint_before_it_has_its_own(trial: Path) -> None:
    remove_leftovers(trial / "3", None)
    remove_leftovers(trial / "3", None, ended=True)  # it left no checkpoint
    assert names(trial / "1") == {"events.jsonl", "step-8", "step-16", "best-8"}
    assert names(trial / "2") == {"events.jsonl", "step-24", "step-32", "best-8"}
    (trial / "3" / "step-40").mkdir()
    remove_leftovers(trial / "3", None, ended=True)
    assert names(trial / "1") == names(trial / "2") == {"events.jsonl"}
