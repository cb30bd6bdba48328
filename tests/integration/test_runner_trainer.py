"""A real trainer process as its actor sees it."""

import os
import signal
from pathlib import Path

import pytest

from sweep_service.processes import started_at
from sweep_service.records import Outcome
from sweep_service.runner.trainer import Job, Trainer
from tests.sweep_stack import SMALL_TRAINING, wait_until
from trainers.config import TrainingConfig


def job(folder: Path, **changes: object) -> Job:
    config = TrainingConfig.model_validate(SMALL_TRAINING).model_dump(mode="json") | changes
    directory, cache = str(folder / "run"), str(folder / "cache")
    return Job(
        trial_id="t", attempt=1, directory=directory, config=config, threads=1, gpus=0, resume_from=None, cache=cache
    )


def test_a_configuration_that_cannot_run_has_failed_with_its_reason(tmp_path: Path) -> None:
    trainer = Trainer(job(tmp_path, steps=3), os.environ)
    assert trainer.wait(30)
    assert trainer.ending.outcome is Outcome.FAILED
    assert "not a multiple" in (trainer.ending.message or "")
    trainer.stop()


@pytest.mark.parametrize(("number", "outcome"), [(signal.SIGKILL, Outcome.CRASHED), (signal.SIGTERM, Outcome.LOST)])
def test_a_killed_trainer_has_crashed_and_one_told_to_stop_is_lost(
    tmp_path: Path, number: signal.Signals, outcome: Outcome
) -> None:
    trainer = Trainer(job(tmp_path, steps=96000), os.environ)
    events = tmp_path / "run" / "events.jsonl"
    wait_until("it trains", lambda: events.exists() and b'"type":"step"' in events.read_bytes())
    os.kill(trainer.pid, number)
    assert trainer.wait(30)
    assert trainer.ending.outcome is outcome
    assert trainer.next_part().events[0]["type"] == "started"
    trainer.stop()


def test_stop_ends_it_while_it_is_still_importing(tmp_path: Path) -> None:
    trainer = Trainer(job(tmp_path), os.environ)
    trainer.stop()
    assert started_at(trainer.pid) is None
