"""How an attempt of a trainer of one's own ends, watched to its end and told from its events alone."""

import errno
import json
import os
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sweep_service.runner.own_events import MAX_LINE
from sweep_service.runner.own_record import OwnRecord
from sweep_service.runner.own_trainer_process import OwnTrainerProcess, note_after_step, noted_after_step, recorded_end
from sweep_service.runner.trainer_launch import Running
from sweep_service.runner.trainer_process import STOP_FILE, OwnJob
from sweep_service.sweep.endings import Ending
from tests.unit.sweep_service.runner.jobs import JOB
from tests.unit.sweep_service.runner.ledgers import lines_of

METRIC = "eval/avg_at_k"
OWN = OwnJob(command=("x",), steps=2, metric=METRIC)
DONE: list[dict[str, Any]] = [
    {"type": "step", "step": 2},
    {"type": "evaluation", "step": 2, "metrics": {METRIC: 0.5}},
]


def ended(folder: Path, exit_code: int, own: OwnJob = OWN) -> OwnTrainerProcess:
    """Return a trainer whose program has ended with this code."""
    running = cast("Running", SimpleNamespace(exit_code=exit_code))
    return OwnTrainerProcess(JOB.model_copy(update={"directory": str(folder), "own": own}), own, lambda *_: running)


def watched_end(folder: Path, exit_code: int, *events: dict[str, Any], own: OwnJob = OWN) -> tuple[Ending, str | None]:
    """Return the end of a program that has written these events and ended with this code."""
    trainer = ended(folder, exit_code, own)
    (folder / "events.jsonl").write_text(lines_of(events))
    while trainer.next_part().lines:
        pass
    return trainer.end


def unwatched_end(folder: Path) -> tuple[Ending, str | None]:
    record = OwnRecord(folder, OWN)
    while record.next_part().lines:
        pass
    return recorded_end(record, folder)


DIVERGED = {"type": "finished", "outcome": "DIVERGED"}


@pytest.mark.parametrize(
    ("events", "ending", "message"),
    [
        ([*DONE, {"type": "finished"}], Ending.SUCCEEDED, None),
        ([*DONE, DIVERGED], Ending.DIVERGED, None),
        ([DIVERGED], Ending.DIVERGED, None),
        ([DIVERGED | {"message": "the loss is nan"}], Ending.DIVERGED, "the loss is nan"),
        ([*DONE, {"type": "failed", "message": "out of luck"}], Ending.FAILED, "out of luck"),
        ([*DONE, {"type": "failed", "message": "x" * 9999}], Ending.FAILED, "x" * 2000),
        (
            [DONE[0] | {"step": 1}, {"type": "finished"}],
            Ending.FAILED,
            "the program ended with exit code 0 after step 1 of 2; write an event of every step to the last "
            "(trainer.steps), or end with 3 (diverged), 4 (stopped) or 1 (failed)",
        ),
        (
            [DONE[0], {"type": "finished"}],
            Ending.FAILED,
            "the program ended with exit code 0 and wrote no evaluation; configs are compared by eval/avg_at_k",
        ),
    ],
    ids=[
        "done",
        "diverged",
        "diverged early",
        "diverged with a reason",
        "failed",
        "long",
        "unfinished",
        "not evaluated",
    ],
)
def test_exit_code_0_and_the_events_alone_give_the_same_end(
    tmp_path: Path, events: list[dict[str, Any]], ending: Ending, message: str | None
) -> None:
    assert watched_end(tmp_path, 0, *events) == (ending, message)
    assert unwatched_end(tmp_path) == (ending, message)


def test_exit_code_0_alone_says_that_it_is_done_and_the_events_alone_do_not(tmp_path: Path) -> None:
    assert watched_end(tmp_path, 0, *DONE) == (Ending.SUCCEEDED, None)
    assert unwatched_end(tmp_path)[0] is Ending.LOST


@pytest.mark.parametrize("exit_code", [-15, 143])
def test_one_that_ends_by_sigterm_goes_on_later(tmp_path: Path, exit_code: int) -> None:
    end = (Ending.LOST, "the trainer was ended by SIGTERM, as if told to stop, but not by its runner")
    assert watched_end(tmp_path, exit_code, DONE[0]) == end
    (tmp_path / STOP_FILE).touch()
    asked = (Ending.LOST, "the trainer was ended by SIGTERM, as its runner asked")
    assert watched_end(tmp_path, exit_code, DONE[0]) == asked


@pytest.mark.parametrize(
    ("exit_code", "ending"),
    [(1, Ending.FAILED), (3, Ending.DIVERGED), (4, Ending.LOST), (6, Ending.MACHINE_FAULT), (-9, Ending.KILLED)],
)
def test_every_other_exit_code_says_more_than_the_events(tmp_path: Path, exit_code: int, ending: Ending) -> None:
    assert watched_end(tmp_path, exit_code, *DONE, {"type": "finished"})[0] is ending


@pytest.mark.parametrize("exit_code", [1, 2, -7, 255])
@pytest.mark.parametrize(
    ("last_words", "ending"),
    [
        ("Traceback\nOSError: [Errno 28] No space left on device", Ending.MACHINE_FAULT),
        ("Error: I/O error: Read-only file system (os error 30)", Ending.MACHINE_FAULT),
        ("OSError: [Errno 28] No space left on device\nwritten elsewhere\nValueError: beta is negative", None),
        ("FileNotFoundError: [Errno 2] No such file or directory: 'data.jsonl'", None),
    ],
)
def test_a_machine_that_failed_shows_in_the_last_words(
    tmp_path: Path, exit_code: int, last_words: str, ending: Ending | None
) -> None:
    (tmp_path / "stderr.log").write_text(last_words)
    seen, message = watched_end(tmp_path, exit_code, DONE[0])
    assert seen is (ending or (Ending.FAILED if exit_code in (1, 2) else Ending.CRASHED))
    assert message is not None
    assert message.endswith(last_words)


def test_a_machine_that_takes_no_file_is_at_fault_unless_the_program_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.TemporaryFile", _no_space)  # so a full disk answers
    ending, message = watched_end(tmp_path, 1, DONE[0])
    assert ending is Ending.MACHINE_FAULT
    assert message is not None
    assert message.startswith("its folder took no file")
    failed = {"type": "failed", "message": "beta is negative"}
    assert watched_end(tmp_path, 1, failed) == (Ending.FAILED, "beta is negative (exit code 1)")


def _no_space(**_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_bad_line_is_the_programs_fault_whatever_it_says(tmp_path: Path) -> None:
    bad = {"type": "warning", "code": "write_failed", "message": "[Errno 5] Input/output error"}
    for exit_code in (0, 1, -15):
        ending, message = watched_end(tmp_path, exit_code, bad)
        assert ending is Ending.FAILED
        assert (message or "").startswith("line 1 of events.jsonl")


def test_a_program_that_removes_its_folder_is_not_the_machines_fault(tmp_path: Path) -> None:
    folder = tmp_path / "1"
    folder.mkdir()
    trainer = ended(folder, 1)
    shutil.rmtree(folder)
    assert trainer.end.ending is Ending.FAILED


@pytest.mark.parametrize(
    ("said", "told"),
    [("", "the trainer ended with exit code 1: the last words"), ("x" * 20_000, "x" * 2000 + " (exit code 1)")],
)
def test_a_failure_may_be_told_at_any_length(tmp_path: Path, said: str, told: str) -> None:
    (tmp_path / "stderr.log").write_text("the last words\n")
    assert watched_end(tmp_path, 1, {"type": "failed", "message": said}) == (Ending.FAILED, told)


@pytest.mark.parametrize(("exit_code", "told"), [(255, "exit code 255"), (200, "exit code 200"), (139, "signal 11")])
def test_only_a_signal_is_told_as_one(tmp_path: Path, exit_code: int, told: str) -> None:
    assert watched_end(tmp_path, exit_code, DONE[0]) == (Ending.CRASHED, f"the trainer was ended by {told}")


def test_a_file_that_becomes_shorter_is_told(tmp_path: Path) -> None:
    record, path = OwnRecord(tmp_path, OWN), tmp_path / "events.jsonl"
    path.write_text(json.dumps({"type": "step", "step": 1, "metrics": {"loss": 0.5}}) + "\n")
    assert record.next_part().lines
    path.write_text(json.dumps({"type": "step", "step": 2}) + "\n")
    assert not record.next_part().lines
    assert "has become shorter; append to it" in (record.problem or "")


def test_a_line_may_be_as_long_as_said_and_ends_at_no_other_sign(tmp_path: Path) -> None:
    """A longer one is refused, as `test_own_events.py` says."""
    record, path = OwnRecord(tmp_path, OWN), tmp_path / "events.jsonl"
    head = '{"type": "step", "step": 1, "metrics":\r {"loss": 0.5}}'  # a return is white space in JSON
    path.write_text(head.ljust(MAX_LINE) + "\n", newline="")
    assert '"loss"' in record.next_part().lines


def test_from_where_an_attempt_went_on_can_be_read_later(tmp_path: Path) -> None:
    assert noted_after_step(tmp_path) == 0
    note_after_step(folder := tmp_path / "1", 5)
    assert noted_after_step(folder) == 5
    for torn in ("", "x", "-5", "9" * 5000):
        (folder / "resumed_after").write_text(torn)
        assert noted_after_step(folder) == 0
