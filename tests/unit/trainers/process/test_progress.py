from pathlib import Path
from types import SimpleNamespace

import pytest

from trainers.process import progress
from trainers.process.events import EventWriter, read_events


def announced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: int, *, stuck: bool = False) -> list[int]:
    """Announce ten times a second, and return what was written."""
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: clock.now))
    with EventWriter(tmp_path / "events.jsonl") as events:
        announcer = progress.Announcer(events, "work", 10 * seconds)
        for done in range(10 * seconds + 1):
            clock.now = done / 10
            announcer.announce(0 if stuck else done)
    return [event["done"] for event in read_events(tmp_path / "events.jsonl")]


def test_progress_is_told_every_second_and_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert announced(tmp_path, monkeypatch, 5) == [0, 10, 20, 30, 40, 50]


def test_long_work_is_told_ever_more_rarely(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = announced(tmp_path, monkeypatch, 3600)
    assert done[:3] == [0, 10, 20]
    assert done[-1] == 36_000
    assert 200 < len(done) < 300


def test_waiting_is_told_again_every_half_minute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert announced(tmp_path, monkeypatch, 600, stuck=True) == [0] * 21
