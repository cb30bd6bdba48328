"""What stops `serve` before it starts: one clear sentence each."""

import os
import socket
import stat
from pathlib import Path

import pytest

from sweep_service.processes.private_folders import open_paths
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


@pytest.mark.parametrize("host", ["nosuch.host.invalid", "192.0.2.1"])
def test_a_host_that_is_not_here(tmp_path: Path, host: str) -> None:
    with pytest.raises(CannotStart, match="set SWEEPS_HOST to an address of this machine"):
        preflight(Settings(home=tmp_path, host=host))


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


def test_rays_folder_lies_in_one_that_only_its_owner_may_enter(tmp_path: Path) -> None:
    short = Path("/h")
    assert ray_folder(Settings(home=short)) == short / "ray"  # `preflight` shuts it in
    for settings in (Settings(home=tmp_path / ("long" * 12)), Settings(home=tmp_path, ray_temp_dir=tmp_path)):
        first, second = ray_folder(settings).parent, ray_folder(settings).parent
        assert first != second
        assert not first.is_relative_to(settings.home) or settings.ray_temp_dir is not None
        assert stat.S_IMODE(first.stat().st_mode) == 0o700
        first.rmdir()
        second.rmdir()


def test_what_was_open_to_others_is_shut_before_anything_starts(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "mlflow").mkdir(parents=True)
    (home / "sweeps.db").touch(mode=0o644)
    (home / "mlflow" / "mlflow.db").touch(mode=0o644)
    (home / "mlflow" / "artifacts" / "1").mkdir(parents=True)
    (home / "mlflow" / "artifacts" / "file").touch()
    for path in (home / "mlflow").rglob("*"):
        path.chmod(0o777)
    (home / "link").symlink_to("/etc/passwd")
    for folder in (home, home / "mlflow"):
        folder.chmod(0o755)
    before = Path("/etc/passwd").stat().st_mode
    preflight(Settings(home=home, port=free_port()))
    assert list(open_paths(home)) == []
    assert Path("/etc/passwd").stat().st_mode == before


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_somebody_elses_folder_is_refused(tmp_path: Path) -> None:
    os.chown(tmp_path, 65534, 65534)
    with pytest.raises(CannotStart, match="belongs to user 65534"):
        preflight(Settings(home=tmp_path, port=free_port()))
