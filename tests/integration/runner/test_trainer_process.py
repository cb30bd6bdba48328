"""A real trainer process as its actor sees it."""

import json
import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from sweep_service.processes.child_processes import started_at
from sweep_service.runner.trainer_launch import Preloaded, Running, spawned
from sweep_service.runner.trainer_process import Job, Trainer
from sweep_service.sweep.endings import Ending
from tests.integration.trainers.trainer_runs import OF_THE_MACHINE
from tests.loss_packages import install
from tests.sweep_stack import SMALL_TRAINING
from tests.waiting import PATIENT_S, wait_until
from trainers.config import TrainingConfig


def spawn(arguments: Sequence[str], directory: Path) -> Running:
    return spawned(arguments, directory, os.environ)


def job(folder: Path, **changes: object) -> Job:
    config = TrainingConfig.model_validate(SMALL_TRAINING).model_dump(mode="json") | changes
    directory, cache = str(folder / "run"), str(folder / "cache")
    return Job(
        trial_id="t", attempt=1, directory=directory, config=config, threads=1, gpus=0, resume_from=None, cache=cache
    )


def test_a_configuration_that_cannot_run_has_failed_with_its_reason(tmp_path: Path) -> None:
    trainer = Trainer(job(tmp_path, steps=3), spawn)
    assert trainer.wait(PATIENT_S)
    assert trainer.end.ending is Ending.FAILED
    assert "not a multiple" in (trainer.end.message or "")
    trainer.stop()


@pytest.mark.long
def test_a_trainer_that_somebody_tells_to_stop_is_lost(tmp_path: Path) -> None:
    trainer = Trainer(job(tmp_path, steps=96000), spawn)
    events = tmp_path / "run" / "events.jsonl"
    wait_until("it trains", lambda: events.exists() and b'"type":"step"' in events.read_bytes())
    assert trainer.pid is not None
    os.kill(trainer.pid, signal.SIGTERM)
    assert trainer.wait(PATIENT_S)
    assert trainer.end.ending is Ending.LOST
    assert trainer.next_part().events[0]["type"] == "started"
    trainer.stop()


def test_stop_ends_it_while_it_is_still_importing(tmp_path: Path) -> None:
    trainer = Trainer(job(tmp_path), spawn)
    assert trainer.pid is not None
    trainer.stop()
    assert started_at(trainer.pid) is None


def events_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "run" / "events.jsonl").read_text().splitlines()]


def values_of(folder: Path) -> list[dict[str, Any]]:
    """What a run computed, without how long and how much memory it took."""
    return [
        {name: value for name, value in event["metrics"].items() if not name.startswith(OF_THE_MACHINE)}
        for event in events_of(folder)
        if event["type"] in ("step", "evaluation")
    ]


@pytest.mark.long
def test_forked_runs_equal_a_spawned_one(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("spawned", "forked", "forked-again")]
    for folder in folders:
        folder.mkdir()
    spawned = Trainer(job(folders[0]), spawn)
    assert spawned.wait(PATIENT_S)
    spawned.stop()
    preloaded = Preloaded(os.environ, tmp_path / "log")
    for folder in folders[1:]:
        forked = Trainer(job(folder), preloaded.start)
        assert forked.wait(PATIENT_S)
        assert forked.end.ending is Ending.SUCCEEDED, (folder / "run" / "stderr.log").read_text()
        forked.stop()
    preloaded.close()
    assert (tmp_path / "log").read_text() == ""
    first, *others = (values_of(folder) for folder in folders)
    assert len(first) == 16 + 3
    assert others == [first, first]
    weights, *copies = ((folder / "run" / "step-16" / "model.safetensors").read_bytes() for folder in folders)
    assert copies == [weights, weights]


@pytest.mark.long
def test_a_forked_trainer_ends_in_every_way_that_a_spawned_one_does(tmp_path: Path) -> None:
    preloaded = Preloaded(os.environ, tmp_path / "log")
    refused = Trainer(job(tmp_path / "a", steps=3), preloaded.start)
    assert refused.wait(PATIENT_S)
    assert refused.end.ending is Ending.FAILED
    assert "not a multiple" in (refused.end.message or "")
    killed = Trainer(job(tmp_path / "b", steps=96000), preloaded.start)
    wait_until("it trains", lambda: not killed.wait(0.05) and '"type":"step"' in killed.next_part().lines)
    assert killed.pid is not None
    os.kill(killed.pid, signal.SIGKILL)
    assert killed.wait(PATIENT_S)
    assert killed.end.ending is Ending.KILLED
    stopped = Trainer(job(tmp_path / "c", steps=96000), preloaded.start)
    wait_until("it trains", lambda: not stopped.wait(0.05) and '"type":"step"' in stopped.next_part().lines)
    pid = stopped.pid
    assert pid is not None
    preloaded.close()
    wait_until("it ends with what it was forked from", lambda: started_at(pid) is None)


FORKING_REWARD = """
import multiprocessing, os, subprocess, time
from trainers.tasks.base import Judgement

class Forking:
    left_behind = None

    def judge(self, problems, completions):
        if Forking.left_behind is None:
            Forking.left_behind = subprocess.Popen(["sleep", "6000"], start_new_session=True)
            with open(os.environ["LEFT_BEHIND"], "w") as file:
                file.write(f"{Forking.left_behind.pid}\\n")
        helper = multiprocessing.get_context("fork").Process(target=time.sleep, args=(6000,))
        helper.start()
        helper.terminate()
        helper.join()
        rights = [problem.answer in completion.text for problem, completion in zip(problems, completions, strict=True)]
        return [Judgement(reward=float(right), correct=right) for right in rights]

    def close(self):
        pass
"""


@pytest.mark.long
@pytest.mark.parametrize("how", ["spawned", "forked"])
def test_a_reward_that_forks_disturbs_nothing_and_leaves_nothing(tmp_path: Path, how: str) -> None:
    """It starts and ends a helper at each judging, as pools do, and another process that it never ends."""
    install(tmp_path, "forking", "forking = forking:Forking", FORKING_REWARD, group="sweeps.rewards")
    left = tmp_path / "left behind"
    paths = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    environment = os.environ | {"PYTHONPATH": paths, "LEFT_BEHIND": str(left)}
    preloaded = Preloaded(environment, tmp_path / "log")
    start = preloaded.start if how == "forked" else lambda words, folder: spawned(words, folder, environment)
    task = {"name": "word_problems", "data": {"suffix": "="}, "reward": {"name": "forking"}}
    whole = Trainer(job(tmp_path / "whole", task=task), start)
    assert whole.wait(PATIENT_S)
    assert whole.end.ending is Ending.SUCCEEDED, whole.end.message
    whole.stop()
    wait_until("what the reward has left ends", lambda: started_at(int(left.read_text())) is None)
    left.unlink()
    killed = Trainer(job(tmp_path / "killed", task=task, steps=96000), start)
    wait_until("it trains", lambda: not killed.wait(0.05) and '"type":"step"' in killed.next_part().lines)
    killed.end_from_beside(0)
    assert killed.wait(PATIENT_S)
    assert killed.end.ending is Ending.KILLED
    killed.stop()
    wait_until("what the reward has left ends", lambda: started_at(int(left.read_text())) is None)
    preloaded.close()
