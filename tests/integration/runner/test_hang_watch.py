"""A trainer that stands still is ended; one that works is not, whichever of its processes does the work."""

import os
import signal
from collections.abc import Generator
from pathlib import Path

import psutil
import pytest

from sweep_service.runner import limits
from sweep_service.runner.limits import HangWatch
from tests.integration.runner.test_deadline import Child, trainer_of
from tests.waiting import wait_until

BUSY = "print('up', flush=True)\nwhile True: sum(range(9999))"
BELOW = (
    "import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', 'while True: sum(range(9999))']); "
    "print('up', flush=True); time.sleep(600)"
)
SLEEPS = "import time; print('up', flush=True); time.sleep(600)"
LOOKS_AROUND = "import time; print('up', flush=True)\nwhile True: time.sleep(0.1)"
WRITES = "import time; print('up', flush=True)\nwhile True:\n    open({events!r}, 'a').write('x'); time.sleep(0.05)"
PATIENCE_S = 2.0


@pytest.fixture
def children() -> Generator[list[Child]]:
    made: list[Child] = []
    yield made
    for child in made:
        child.stop()


@pytest.fixture(autouse=True)
def _no_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "STOP_GRACE_S", 0.2)


@pytest.mark.parametrize("program", [SLEEPS, LOOKS_AROUND])
def test_one_that_waits_for_ever_is_ended(program: str, tmp_path: Path, children: list[Child]) -> None:
    trainer, child = trainer_of(program, tmp_path, children)
    watch = HangWatch(trainer, tmp_path, PATIENCE_S)
    wait_until("it has ended", lambda: child.exit_code is not None)
    assert watch.hung
    assert "no life for 0.0333 minutes" in watch.message
    assert "set retries.hung_after_minutes higher" in watch.message


def test_those_that_work_are_left_alone_until_they_are_stopped(tmp_path: Path, children: list[Child]) -> None:
    writes = WRITES.replace("{events!r}", repr(str(tmp_path / "events.jsonl")))
    folders = [(BUSY, tmp_path / "busy"), (BELOW, tmp_path / "below"), (writes, tmp_path)]
    working = [(*trainer_of(program, folder, children), folder) for program, folder in folders]
    watches = [HangWatch(trainer, folder, PATIENCE_S) for trainer, _, folder in working]
    for _ in range(2):  # each begins later, so that the patience of the first ones would have ended as often
        other, other_child = trainer_of(SLEEPS, tmp_path / "other", children)
        HangWatch(other, tmp_path / "other", PATIENCE_S)
        wait_until("the patience has ended", lambda ended=other_child: ended.exit_code is not None)
    assert not any(watch.hung for watch in watches)
    assert [child.exit_code for _, child, _ in working] == [None] * 3
    for _, child, _ in working:
        assert child.pid is not None
        os.killpg(child.pid, signal.SIGSTOP)
    for watch, (_, child, _) in zip(watches, working, strict=True):
        wait_until("it has ended", lambda ended=child: ended.exit_code is not None)
        assert watch.hung
        assert child.exit_code == -signal.SIGKILL  # a stopped process does not hear SIGTERM


def test_one_that_is_not_there_yet_is_ended_as_soon_as_it_is(tmp_path: Path, children: list[Child]) -> None:
    trainer, child = trainer_of(SLEEPS, tmp_path, children)
    child.there = False
    watch = HangWatch(trainer, tmp_path, 0.5)
    wait_until("its patience has ended", lambda: watch.hung)
    assert child.exit_code is None
    child.there = True
    wait_until("it has ended", lambda: child.exit_code is not None)


def test_a_lifted_watch_does_nothing(tmp_path: Path, children: list[Child]) -> None:
    trainer, child = trainer_of(SLEEPS, tmp_path, children)
    lifted = HangWatch(trainer, tmp_path, PATIENCE_S)
    lifted.lift()
    other, ended = trainer_of(SLEEPS, tmp_path / "other", children)
    HangWatch(other, tmp_path / "other", PATIENCE_S)
    wait_until("the patience has ended", lambda: ended.exit_code is not None)
    assert not lifted.hung
    assert child.exit_code is None


def test_a_look_that_fails_takes_no_sign_of_life_with_it(
    tmp_path: Path, children: list[Child], monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer, _ = trainer_of(SLEEPS, tmp_path, children)
    watch = HangWatch(trainer, tmp_path, 600.0)
    watch.lift()
    monkeypatch.setattr(limits, "processor_time_s", lambda _: 0.0)
    watch._shows_life()
    (tmp_path / "events.jsonl").write_text("x\n")

    def gone(pid: int) -> float:
        raise psutil.NoSuchProcess(pid)

    monkeypatch.setattr(limits, "processor_time_s", gone)
    with pytest.raises(psutil.NoSuchProcess):
        watch._shows_life()
    monkeypatch.setattr(limits, "processor_time_s", lambda _: 0.0)
    assert watch._shows_life()
    assert not watch._shows_life()
