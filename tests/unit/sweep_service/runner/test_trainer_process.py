"""Reading a trainer's events, and saying how it ended."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from sweep_service.runner.trainer_launch import Preloaded, Running
from sweep_service.runner.trainer_process import STOP_FILE, EventChunk, Job, Trainer, attempt_end, trainer_environment
from sweep_service.sweep.endings import Ending
from tests.unit.sweep_service.runner.jobs import JOB
from tests.unit.sweep_service.runner.ledgers import lines_of


def write(folder: Path, *events: dict[str, Any], torn: str = "") -> None:
    (folder / "events.jsonl").write_text(lines_of(events) + torn)


def test_who_forks_trainers_hears_no_signal_to_the_group_of_its_owner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\nread line\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    preloaded = Preloaded(os.environ, tmp_path / "log")
    assert os.getsid(preloaded._server.pid) == preloaded._server.pid
    preloaded.close()


def test_only_whole_lines_are_read(tmp_path: Path) -> None:
    write(tmp_path, {"a": 1}, torn='{"b": ')
    part = EventChunk.read(tmp_path / "events.jsonl", 0)
    assert (part.start, part.end, part.events) == (0, 9, [{"a": 1}])
    assert EventChunk.read(tmp_path / "events.jsonl", 9).lines == ""


def test_parts_are_bounded_and_follow_one_another(tmp_path: Path) -> None:
    events = [{"number": number, "text": "é" * 20} for number in range(50)]
    write(tmp_path, *events)
    offset, found = 0, list[object]()
    while (part := EventChunk.read(tmp_path / "events.jsonl", offset, limit=300)).lines:
        assert part.end - part.start <= 300
        found += part.events
        offset = part.end
    assert found == events


def test_a_line_longer_than_a_part_comes_whole(tmp_path: Path) -> None:
    write(tmp_path, {"text": "x" * 1000}, {"a": 1})
    assert EventChunk.read(tmp_path / "events.jsonl", 0, limit=100).events == [{"text": "x" * 1000}]


def test_a_file_that_is_not_there_has_no_events(tmp_path: Path) -> None:
    assert EventChunk.read(tmp_path / "events.jsonl", 0).lines == ""


@pytest.mark.parametrize(
    ("exit_code", "ending"),
    [
        (0, Ending.SUCCEEDED),
        (1, Ending.FAILED),
        (2, Ending.FAILED),
        (3, Ending.DIVERGED),
        (4, Ending.LOST),
        (5, Ending.LOST),
        (6, Ending.MACHINE_FAULT),
        (-9, Ending.KILLED),
        (-11, Ending.CRASHED),
        (137, Ending.KILLED),
    ],
)
def test_exit_codes(tmp_path: Path, exit_code: int, ending: Ending) -> None:
    assert attempt_end(exit_code, tmp_path).ending is ending


def test_a_failure_says_what_the_trainer_said(tmp_path: Path) -> None:
    (tmp_path / "stderr.log").write_text("Traceback\nOSError: no space")
    assert attempt_end(1, tmp_path).message == "the trainer ended with exit code 1: Traceback\nOSError: no space"
    write(tmp_path, {"type": "failed", "code": "FAILED", "message": "OSError: no space"})
    assert attempt_end(6, tmp_path).message == "OSError: no space (exit code 6)"


def test_who_told_a_trainer_to_stop_is_said(tmp_path: Path) -> None:
    said = "the trainer ended with exit code 4, "
    assert attempt_end(4, tmp_path) == (Ending.LOST, said + "as if told to stop, but not by its runner")
    (tmp_path / STOP_FILE).touch()
    assert attempt_end(4, tmp_path) == (Ending.LOST, said + "as its runner asked")


@pytest.mark.parametrize("exit_code", [3, None])
def test_a_run_that_diverged_says_why(tmp_path: Path, exit_code: int | None) -> None:
    write(tmp_path, {"type": "finished", "outcome": "DIVERGED", "message": "the loss is nan after step 3"})
    assert attempt_end(exit_code, tmp_path) == (Ending.DIVERGED, "the loss is nan after step 3")


def test_a_crash_names_the_signal_and_the_last_words(tmp_path: Path) -> None:
    (tmp_path / "stderr.log").write_text("step 7")
    assert attempt_end(-9, tmp_path).message == "the trainer was ended by signal 9: step 7"


@pytest.mark.parametrize(
    ("last", "ending"),
    [
        ({"type": "finished", "outcome": "SUCCEEDED"}, Ending.SUCCEEDED),
        ({"type": "finished", "outcome": "DIVERGED"}, Ending.DIVERGED),
        ({"type": "finished", "outcome": "STOPPED"}, Ending.LOST),
        ({"type": "failed", "message": "no"}, Ending.FAILED),
        ({"type": "failed", "code": "MACHINE_FAULT", "message": "no space"}, Ending.MACHINE_FAULT),
        ({"type": "step"}, Ending.LOST),
    ],
)
def test_without_an_exit_code_the_events_tell(tmp_path: Path, last: dict[str, object], ending: Ending) -> None:
    assert attempt_end(None, tmp_path).ending is Ending.LOST
    write(tmp_path, {"type": "started"}, last)
    assert attempt_end(None, tmp_path).ending is ending


def test_a_trainer_gets_its_threads_and_the_gpus_of_its_actor() -> None:
    given = {"CUDA_VISIBLE_DEVICES": "3,4", "OMP_NUM_THREADS": "1", "PYTHONPATH": "/mine"}
    without = trainer_environment(JOB, given)
    assert (without["OMP_NUM_THREADS"], without["MKL_NUM_THREADS"], without["CUDA_VISIBLE_DEVICES"]) == ("3", "3", "")
    assert without["PYTHONPATH"].endswith(":/mine")
    assert trainer_environment(JOB.model_copy(update={"gpus": 2}), given)["CUDA_VISIBLE_DEVICES"] == "3,4"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, ["--model-only-at-end"]),
        ({"keep_models": (8, 12)}, ["--model-only-at-end", "--keep-models", "8,12"]),
        ({"resume_from": "/r/step-8"}, ["--model-only-at-end", "--resume-from", "/r/step-8"]),
        ({"measure": {"model": None}}, ["--measure", "{run}/request.json"]),
        ({"needs": ("loss==1", "other==2")}, ["--needs", "loss==1", "--needs", "other==2", "--model-only-at-end"]),
    ],
)
def test_the_command_says_what_the_job_is(tmp_path: Path, changes: dict[str, Any], words: list[str]) -> None:
    commands = list[Sequence[str]]()

    def start(arguments: Sequence[str], directory: Path) -> Running:
        commands.append(arguments)
        return cast("Running", None)

    job = JOB.model_copy(update={"directory": str(tmp_path)} | changes)
    Trainer(Job.model_validate_json(job.model_dump_json()), start)
    usual = [str(tmp_path / "config.yaml"), "--output", str(tmp_path), "--cache", "/c"]
    assert commands == [[*usual, *(word.format(run=tmp_path) for word in words)]]


def test_a_trainer_gets_no_secret() -> None:
    secrets = (
        *("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_TOKEN_PATH", "SWEEPS_HUB_TOKEN_FILE"),
        *("SWEEPS_DATABASE_URL", "SWEEPS_DATABASE_URL_FILE", "SWEEPS_MLFLOW_LOGIN", "RAY_AUTH_TOKEN"),
        *("MLFLOW_TRACKING_TOKEN", "MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD_FILE"),
    )
    environment = trainer_environment(JOB, dict.fromkeys(secrets, "hf_canary") | {"HOME": "/home/me"})
    assert "hf_canary" not in environment.values()
    assert (environment["HOME"], environment["HF_HUB_DISABLE_IMPLICIT_TOKEN"]) == ("/home/me", "1")
