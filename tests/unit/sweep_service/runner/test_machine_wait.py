from pathlib import Path
from types import SimpleNamespace

import pytest

from sweep_service.runner import machine_wait
from sweep_service.runner.machine_wait import LONGEST_WAIT_S, MachineWait


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time on the monotonic clock."""
    now = [1000.0]
    clock = SimpleNamespace(monotonic=lambda: now[0])  # the event loops of other threads keep the real one
    monkeypatch.setattr(machine_wait, "time", clock)
    return now


def waited(wait: MachineWait, clock: list[float]) -> float:
    """Return for how long a wait that begins now lasts."""
    wait.begin()
    began = clock[0]
    while not wait.is_over:
        wait.begin()  # others fail of the same cause
        clock[0] += 0.5
    return clock[0] - began


def test_each_failure_in_a_row_waits_twice_as_long_up_to_a_minute(clock: list[float], tmp_path: Path) -> None:
    wait = MachineWait(tmp_path)
    assert wait.is_over
    assert [waited(wait, clock) for _ in range(8)] == [1, 2, 4, 8, 16, 32, LONGEST_WAIT_S, LONGEST_WAIT_S]
    wait.forget()
    assert waited(wait, clock) == 1


def test_nothing_begins_while_the_storage_takes_no_file(clock: list[float], tmp_path: Path) -> None:
    wait = MachineWait(tmp_path / "storage")
    wait.begin()
    for _ in range(100):
        clock[0] += 5
        assert not wait.is_over
    (tmp_path / "storage").mkdir()
    clock[0] += 5
    assert wait.is_over
    assert list((tmp_path / "storage").iterdir()) == []
