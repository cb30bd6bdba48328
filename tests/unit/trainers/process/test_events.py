import errno
import json
import os
from pathlib import Path

import pytest

from trainers.process.events import EventWriter, read_events


def test_events_are_lines_that_can_be_read_while_the_run_goes_on(tmp_path: Path) -> None:
    with EventWriter(tmp_path / "new" / "events.jsonl") as events:
        events.write("progress", phase="warm start", done=1, total=2)
        (event,) = read_events(tmp_path / "new" / "events.jsonl")
    assert event.pop("time") > 1.7e9
    assert event == {"type": "progress", "phase": "warm start", "done": 1, "total": 2}


def test_numbers_that_are_not_finite_become_null(tmp_path: Path) -> None:
    with EventWriter(tmp_path / "events.jsonl") as events:
        events.write("step", step=1, metrics={"loss": float("nan"), "more": [float("inf"), 1.5]})
    (event,) = read_events(tmp_path / "events.jsonl")
    assert event["metrics"] == {"loss": None, "more": [None, 1.5]}


def test_a_line_torn_by_a_crash_is_dropped_before_the_next_event(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text('{"type": "step", "step": 1}\n{"type": "st', encoding="utf-8")
    assert [event["step"] for event in read_events(path)] == [1]
    with EventWriter(path) as events:
        events.write("step", step=2)
    assert [json.loads(line)["step"] for line in path.read_text(encoding="utf-8").splitlines()] == [1, 2]


def test_an_end_that_cannot_be_kept_is_an_error_unless_another_one_is_under_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"), EventWriter(tmp_path / "events.jsonl"):
        pass
    with pytest.raises(ValueError, match="the first"), EventWriter(tmp_path / "events.jsonl"):
        raise ValueError("the first")
