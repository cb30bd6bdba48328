"""Owners and children: identity, orderly ends, and the keeper of programs that know no lifeline."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from sweep_service.processes.child_processes import (
    is_alive,
    kill,
    start,
    start_kept,
    started_at,
    stop,
    terminate,
    this_host,
)
from tests.waiting import PATIENT_S, wait_until

# A program, a child that leaves its session, and an orphaned grandchild; each writes its pid.
FAMILY = """
import os, subprocess, sys, time
def note(name): open(os.path.join(sys.argv[1], name), "w").write(str(os.getpid()))
note("program")
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(0.1)
        note("orphan")
        time.sleep(600)
    os._exit(0)
if sys.argv[2] == "stay":
    time.sleep(600)
while not os.path.exists(os.path.join(sys.argv[1], "orphan")):
    time.sleep(0.01)
sys.exit(7)
"""


def family(folder: Path, what: str) -> subprocess.Popen[bytes]:
    return start_kept([sys.executable, "-c", FAMILY, str(folder), what], os.environ, folder / "log")


def pid_in(path: Path) -> int:
    wait_until(f"{path} is written", lambda: path.exists() and path.read_text() != "")
    return int(path.read_text())


def test_a_process_is_its_pid_and_its_start(tmp_path: Path) -> None:
    process = start([sys.executable, "-c", "import sys; sys.stdin.read()"], os.environ, tmp_path / "log")
    started = started_at(process.pid)
    assert started is not None
    assert is_alive(this_host(), process.pid, started)
    assert not is_alive("another-host", process.pid, started)
    terminate(this_host(), process.pid, started + 1)
    assert process.poll() is None
    terminate(this_host(), process.pid, started)
    assert process.wait() == -signal.SIGKILL
    assert not is_alive(this_host(), process.pid, started)
    stop(process, 1)


def test_stop_kills_what_does_not_want_to_end(tmp_path: Path) -> None:
    stubborn = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); time.sleep(600)"
    )
    process = start([sys.executable, "-c", stubborn], os.environ, tmp_path / "log")
    wait_until("it ignores SIGTERM", lambda: (tmp_path / "log").read_text() != "")
    stop(process, 0.1)
    assert process.returncode == -signal.SIGKILL


def test_the_end_of_the_lifeline_ends_all_that_the_keeper_keeps(tmp_path: Path) -> None:
    keeper = family(tmp_path, "stay")
    below = [pid_in(tmp_path / name) for name in ("program", "orphan")]
    assert keeper.stdin is not None
    keeper.stdin.close()
    assert keeper.wait(PATIENT_S) == 5
    assert [started_at(pid) for pid in below] == [None, None]


def test_a_program_that_ends_leaves_nothing_behind(tmp_path: Path) -> None:
    keeper = family(tmp_path, "leave")
    assert keeper.wait(PATIENT_S) == 7
    assert started_at(pid_in(tmp_path / "orphan")) is None
    stop(keeper, 1)


@pytest.mark.parametrize("victim", ["upper", "upper and its group", "lower"])
def test_nothing_is_left_if_a_half_of_the_keeper_is_killed(tmp_path: Path, victim: str) -> None:
    keeper = family(tmp_path, "stay")
    below = [pid_in(tmp_path / name) for name in ("program", "orphan")]
    (lower,) = psutil.Process(keeper.pid).children()
    os.kill(lower.pid if victim == "lower" else keeper.pid, signal.SIGKILL)
    if victim == "upper and its group":
        kill(keeper)
    assert keeper.wait(PATIENT_S) == (128 + signal.SIGKILL if victim == "lower" else -signal.SIGKILL)
    wait_until("nothing is left", lambda: not any(map(started_at, [lower.pid, *below])))
    stop(keeper, 1)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_the_keeper_passes_sigterm_on_and_dies_with_its_program(tmp_path: Path, number: signal.Signals) -> None:
    keeper = family(tmp_path, "stay")
    program, orphan = pid_in(tmp_path / "program"), pid_in(tmp_path / "orphan")
    os.kill(keeper.pid if number == signal.SIGTERM else program, number)
    assert keeper.wait(PATIENT_S) == 128 + number
    assert [started_at(program), started_at(orphan)] == [None, None]
    stop(keeper, 1)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGCHLD])
def test_a_stop_signal_during_the_imports_ends_who_would_fork_trainers(number: signal.Signals) -> None:
    program = (
        "import os, sys; from sweep_service.runner import preloaded;"
        f"preloaded._preload = lambda: os.kill(os.getpid(), {number}); sys.exit(preloaded.main())"
    )
    forking = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE)
    assert forking.stdin is not None
    if number == signal.SIGCHLD:  # it goes on, to the end of its input
        forking.stdin.close()
    assert forking.wait(PATIENT_S) == (0 if number == signal.SIGCHLD else 128 + number)
    forking.stdin.close()
