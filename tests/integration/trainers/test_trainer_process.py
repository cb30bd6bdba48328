"""`python -m trainers` as a process: signals, exit codes, an owner that dies."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
import yaml
from safetensors.torch import load_file

from tests.integration.trainers.trainer_runs import SMALL, Run, run, small_config
from tests.sweep_stack import alive
from tests.waiting import PATIENT_S, wait_until
from trainers.config import with_params
from trainers.process.events import read_events

STEPS = 200_000
Start = Callable[..., "subprocess.Popen[bytes]"]


def steps_done(output: Path) -> int:
    events = read_events(output / "events.jsonl") if (output / "events.jsonl").exists() else []
    return max((event["step"] for event in events if event["type"] == "step"), default=0)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a trainer of very many small updates; ends it if the test does not."""
    started: list[subprocess.Popen[bytes]] = []

    def trainer(output: Path, *arguments: str, **options: Any) -> "subprocess.Popen[bytes]":
        (tmp_path / "run.yaml").write_text(yaml.safe_dump(with_params(SMALL, {"steps": STEPS})), encoding="utf-8")
        command = [sys.executable, "-m", "trainers", str(tmp_path / "run.yaml"), "evaluation.every_steps=100000"]
        command += ["--output", str(output), "--cache", str(tmp_path / "cache"), *arguments]
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options))
        return started[-1]

    yield trainer
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.long
def test_sigterm_saves_and_the_rest_equals_a_run_never_stopped(start: Start, tmp_path: Path) -> None:
    process = start(tmp_path / "run")
    wait_until("it trains", lambda: steps_done(tmp_path / "run") >= 5)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=PATIENT_S)
    assert process.returncode == 4, err.decode()
    assert out == b""
    events = read_events(tmp_path / "run" / "events.jsonl")
    assert [event["type"] for event in events[-2:]] == ["checkpoint", "finished"]
    assert events[-1]["outcome"] == "STOPPED"
    stopped_at = events[-1]["step"]
    assert 0 < stopped_at < STEPS

    end = (stopped_at // 4 + 2) * 4  # a whole number of rollouts
    config = small_config(steps=end, evaluation__every_steps=100_000)
    rest = run(config, tmp_path / "rest", tmp_path / "cache", resume_from=Path(events[-2]["path"]))
    straight = run(config, tmp_path / "straight", tmp_path / "cache")
    assert rest.metrics() == straight.metrics(after=stopped_at)
    assert Run("", events, tmp_path).metrics() == straight.metrics()[:stopped_at]
    for name, tensor in load_file(rest.output / f"step-{end}" / "model.safetensors").items():
        assert torch.equal(tensor, straight.weights(end)[name]), name


def test_a_trainer_ends_when_its_pipe_does(start: Start, tmp_path: Path) -> None:
    reading, writing = os.pipe()
    process = start(tmp_path / "run", "--parent-fd", str(reading), pass_fds=[reading])
    os.close(reading)
    wait_until("it has begun", lambda: (tmp_path / "run" / "events.jsonl").exists())
    assert process.poll() is None
    os.close(writing)
    assert process.wait(timeout=PATIENT_S) == 5


def test_a_trainer_dies_with_the_process_that_started_it(tmp_path: Path) -> None:
    """The owner is killed while the pipe's writing end stays open elsewhere: the kernel's death signal does it."""
    reading, writing = os.pipe()
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(with_params(SMALL, {"steps": STEPS})), encoding="utf-8")
    command = [sys.executable, "-m", "trainers", str(tmp_path / "run.yaml"), "--parent-fd", str(reading)]
    command += ["--output", str(tmp_path / "run"), "--cache", str(tmp_path / "cache")]
    code = f"import subprocess; subprocess.Popen({command!r}, pass_fds=[{reading}]).wait()"
    with subprocess.Popen([sys.executable, "-c", code], pass_fds=[reading], stderr=subprocess.DEVNULL) as owner:
        os.close(reading)
        wait_until("it has begun", lambda: (tmp_path / "run" / "events.jsonl").exists())
        (trainer,) = psutil.Process(owner.pid).children()
        owner.kill()
    wait_until("it ends", lambda: not alive(trainer))
    os.close(writing)


@pytest.mark.long
def test_a_run_that_cannot_go_on_says_why(start: Start, tmp_path: Path) -> None:
    process = start(tmp_path / "run", "--resume-from", str(tmp_path / "nowhere"))
    out, err = process.communicate(timeout=PATIENT_S)
    assert (process.returncode, out) == (2, b"")
    assert b"nowhere is not a complete checkpoint" in err
    assert read_events(tmp_path / "run" / "events.jsonl")[-1]["code"] == "BAD_CONFIG"
