import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from sweep_service.runner import machine_wait
from sweep_service.runner.machine_wait import LONGEST_WAIT_S, MachineWait, takes_files


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


def test_a_disk_that_takes_only_empty_files_takes_none(tmp_path: Path) -> None:
    script = (
        "import resource, signal, sys\n"
        "from pathlib import Path\n"
        "from sweep_service.runner.machine_wait import takes_files\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))\n"
        "sys.exit(takes_files(Path(sys.argv[1])))\n"
    )
    assert takes_files(tmp_path)
    assert subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False).returncode == 0
