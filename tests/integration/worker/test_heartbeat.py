"""The worker's health check, as a container's."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sweep_service.processes import heartbeat
from sweep_service.processes.child_processes import start as start_child
from sweep_service.processes.child_processes import stop, this_host
from sweep_service.processes.heartbeat import (
    Heartbeat,
    missing_worker,
    movement,
    node_file,
    standstill,
    worker_file,
)
from sweep_service.settings import Settings
from tests.waiting import wait_until


def test_a_worker_is_alive_while_its_loop_moves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(home=tmp_path)
    assert "no worker runs on" in (missing_worker(settings.home) or "")
    beating = Heartbeat(worker_file(settings.home))
    beating.beat()
    assert missing_worker(settings.home) is None
    file = tmp_path / f"worker-{this_host()}.alive"
    os.utime(file, (time.time() - 100, time.time() - 100))
    assert "its loop last moved 100 s ago" in (missing_worker(settings.home) or "")
    beating.beat()  # too soon to write again
    assert missing_worker(settings.home) is not None
    monkeypatch.setattr(heartbeat, "BEAT_EVERY_S", 0.0)
    beating = Heartbeat(worker_file(settings.home))
    beating.beat()
    assert missing_worker(settings.home) is None
    beating.stop()
    assert not file.exists()


def test_a_folder_that_cannot_be_written_stops_no_worker(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    settings = Settings(home=tmp_path / "file")
    beating = Heartbeat(worker_file(settings.home))
    beating.beat()
    beating.stop()
    assert "Not a directory" in (missing_worker(settings.home) or "")


def test_a_loop_has_moved_when_its_file_has_changed_whatever_the_clock_says(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)
    file = tmp_path / f"worker-{this_host()}.alive"
    moved = movement(worker_file(settings.home))
    assert moved()  # without a file nothing can be told
    Heartbeat(worker_file(settings.home)).beat()
    assert [moved(), moved(), moved()] == [True, False, False]
    os.utime(file, (1, 1))  # as after a clock was set back
    assert [moved(), moved()] == [True, False]


def test_what_was_started_and_shows_no_life_is_told(tmp_path: Path) -> None:
    assert standstill(tmp_path) is None  # as where the workers are elsewhere
    for file, name in ((worker_file(tmp_path), "the worker"), (node_file(tmp_path), "Ray's node")):
        beating = Heartbeat(file)
        beating.beat()
        assert standstill(tmp_path) is None
        os.utime(file, (time.time() - 20, time.time() - 20))
        assert (standstill(tmp_path) or "").startswith(f"{name} on {this_host()} has shown no life for 20 s")
        beating.stop()
        assert standstill(tmp_path) is None


@pytest.mark.long
def test_the_check_of_a_real_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(home=tmp_path)
    environment = {**os.environ, **settings.environment()}
    command = [sys.executable, "-m", "sweep_service", "worker"]

    def check() -> subprocess.CompletedProcess[str]:
        return subprocess.run([*command, "--check"], env=environment, capture_output=True, text=True)

    worker = start_child(command, environment, tmp_path / "worker.log")
    try:
        wait_until("it is alive", lambda: missing_worker(settings.home) is None)
        assert (found := check()).returncode == 0, found.stderr
        second = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert second.returncode == 1
        assert second.stderr.startswith(f"error: another worker (process {worker.pid}) works on {tmp_path}")
        assert missing_worker(settings.home) is None  # the second one has taken no sign of the first one's life away
        worker.send_signal(signal.SIGSTOP)
        monkeypatch.setattr(heartbeat, "DEAD_AFTER_S", 6.0)
        wait_until("it counts as stuck", lambda: "is stuck" in (missing_worker(settings.home) or ""))
        worker.send_signal(signal.SIGCONT)
        wait_until("it goes on", lambda: missing_worker(settings.home) is None)
    finally:
        stop(worker, 10)
    assert worker.returncode == 0
    assert (found := check()).returncode == 1
    assert found.stderr.startswith("error: no worker runs on")
