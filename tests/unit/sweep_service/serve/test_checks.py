"""What stops `serve` before it starts: one clear sentence each."""

import socket
from pathlib import Path

import pytest

from sweep_service.serve.checks import CannotStart, free_port, locked, preflight
from sweep_service.serve.services import ray_folder
from sweep_service.settings import Settings


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(CannotStart, match=rf"port {port} on 127.0.0.1 cannot be used .*set SWEEPS_PORT to another"):
            preflight(Settings(home=tmp_path, port=port))
        assert free_port(port) != port
    assert free_port(port) == port


def test_a_home_that_cannot_be_written() -> None:
    with pytest.raises(CannotStart, match=r"the data folder /proc/nowhere cannot be written .*set SWEEPS_HOME"):
        preflight(Settings(home=Path("/proc/nowhere"), port=free_port()))


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sweep_service.serve.checks.NEEDED_DISK_BYTES", 1 << 60)
    with pytest.raises(CannotStart, match=r"only \d+ MB are free in .*free some space"):
        preflight(Settings(home=tmp_path, port=free_port()))


def test_a_home_that_is_in_use(tmp_path: Path) -> None:
    preflight(Settings(home=tmp_path, port=free_port()))
    with locked(tmp_path), pytest.raises(CannotStart, match=r"another `sweeps serve` \(process \d+\) uses"):
        locked(tmp_path)
    locked(tmp_path).close()


def test_only_a_folder_of_its_own_is_rays(tmp_path: Path) -> None:
    assert ray_folder(Settings(home=tmp_path, ray_temp_dir=tmp_path)).parent == tmp_path
