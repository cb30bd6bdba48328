"""A trainer ends at its moment, whether it wants to or not, and while nobody calls its actor."""

import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from sweep_service.processes.child_processes import stop
from sweep_service.runner import limits, trainer_process
from sweep_service.runner.limits import Deadline
from sweep_service.runner.trainer_process import Job, Trainer
from tests.waiting import wait_until

STUBBORN = (
    "import signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
)
WILLING = "import sys, time; print('up', flush=True); time.sleep(600)"


class Child:
    """A trainer's process that is none; it may hide its pid for a while, as one that is not forked yet."""

    def __init__(self, program: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        assert self._process.stdout is not None
        self._process.stdout.readline()  # it is up, and ignores what it will ignore
        self._process.stdout.close()
        self.there = True

    @property
    def pid(self) -> int | None:
        return self._process.pid if self.there else None

    @property
    def exit_code(self) -> int | None:
        return self._process.poll()

    def wait(self, timeout_s: float) -> None:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout_s)

    def stop(self) -> None:
        stop(self._process, 0)


@pytest.fixture
def children() -> Iterator[list[Child]]:
    made: list[Child] = []
    yield made
    for child in made:
        child.stop()


def trainer_of(program: str, directory: Path, children: list[Child]) -> tuple[Trainer, Child]:
    def start(arguments: Sequence[str], where: Path) -> Child:
        children.append(Child(program))
        return children[-1]

    job = Job(
        trial_id="t",
        attempt=1,
        directory=str(directory),
        config={},
        threads=1,
        gpus=0,
        resume_from=None,
        cache=str(directory),
    )
    return Trainer(job, start), children[-1]


@pytest.mark.parametrize(("program", "signal"), [(WILLING, -15), (STUBBORN, -9)])
def test_it_ends_by_sigterm_or_after_the_grace_by_sigkill(
    program: str, signal: int, tmp_path: Path, children: list[Child], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "STOP_GRACE_S", 0.3)
    trainer, child = trainer_of(program, tmp_path, children)
    limit = Deadline(trainer, 0.05)
    wait_until("it has ended", lambda: child.exit_code is not None)
    assert (child.exit_code, limit.passed) == (signal, True)


def test_one_that_is_not_there_yet_ends_as_soon_as_it_is(tmp_path: Path, children: list[Child]) -> None:
    trainer, child = trainer_of(WILLING, tmp_path, children)
    child.there = False
    limit = Deadline(trainer, 0)
    wait_until("the moment has come", lambda: limit.passed)
    assert child.exit_code is None
    child.there = True
    wait_until("it has ended", lambda: child.exit_code is not None)


def test_a_moment_without_file_handles_only_delays_the_end(
    tmp_path: Path, children: list[Child], monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer, child = trainer_of(WILLING, tmp_path, children)
    ends, really = list[int](), trainer_process.terminate

    def terminate(host: str | None, pid: int | None, started: float | None, grace_s: float = 0) -> None:
        ends.append(1)
        if len(ends) < 3:
            raise OSError(24, "Too many open files")
        really(host, pid, started, grace_s)

    monkeypatch.setattr(trainer_process, "terminate", terminate)
    Deadline(trainer, 0)
    wait_until("it has ended", lambda: child.exit_code is not None)


def test_a_lifted_deadline_does_nothing(tmp_path: Path, children: list[Child]) -> None:
    trainer, child = trainer_of(WILLING, tmp_path, children)
    limit = Deadline(trainer, 600)
    limit.lift()
    wait_until("its thread ends", lambda: not any(t.name == "deadline" for t in threading.enumerate()))
    assert (child.exit_code, limit.passed) == (None, False)
