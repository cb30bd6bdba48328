"""A real `sweeps serve` in a folder of its own, which the same command starts again whenever it has ended."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import httpx
import psutil

from sweep_service.auth import read_token
from sweep_service.client import Client
from sweep_service.settings import Settings
from sweep_service.tracking.credentials import sign_in
from tests.chaos.specs import OWN_TRAINER
from tests.sweep_stack import answers, processes_of, unused_port
from tests.waiting import wait_until

SLOTS: Final = 2
"""Trials at a time, however many cores the machine has."""
DISK_MIB: Final = 1500
"""Size of the disk that can be filled; a run of twenty minutes leaves a few hundred MiB."""
RESTART_AFTER_S: Final = 1.0
"""Seconds after the end of `serve` until whoever keeps it starts it again, as systemd does."""


class Installation:
    """The service under test.

    Args:
        folder: new folder below which everything lies.
        disk: whether its home is a disk of its own, which can be filled.
    """

    def __init__(self, folder: Path, disk: bool) -> None:
        self.folder, self.disk = folder, disk
        self.settings = Settings(home=folder / "h", port=unused_port(), trainer_commands=" ".join(OWN_TRAINER))
        self.environment = os.environ | self.settings.environment()
        self.serve: subprocess.Popen[bytes] | None = None
        self.starts = 0
        self._ended_at: float | None = None

    @property
    def home(self) -> Path:
        """The data folder of the service."""
        return self.settings.home

    @property
    def log(self) -> Path:
        """The file of what `serve` prints."""
        return self.folder / "serve.log"

    def plant(self, mistake: str) -> None:
        """Have every runner and worker that starts from now on make this mistake."""
        paths = [str(Path(__file__).parent / "planted"), *filter(None, [self.environment.get("PYTHONPATH")])]
        self.environment |= {"PYTHONPATH": os.pathsep.join(paths), "PLANTED_MISTAKE": mistake}

    def start(self) -> None:
        """Start `sweeps serve`."""
        self.starts, self._ended_at = self.starts + 1, None
        with self.log.open("ab") as log:
            command = [sys.executable, "-m", "sweep_service", "serve", "--cpus", str(SLOTS), "--gpus", "0"]
            self.serve = subprocess.Popen(command, env=self.environment, stdout=log, stderr=log, start_new_session=True)

    def tend(self) -> None:
        """Start `serve` again a moment after it has ended."""
        if self.serve is None or self.serve.poll() is None:
            return
        self._ended_at = self._ended_at or time.monotonic()
        if time.monotonic() - self._ended_at > RESTART_AFTER_S:
            self.start()

    def wait_until_ready(self) -> None:
        """Wait until the API answers, with restarts.

        Raises: TimeoutError.
        """

        def ready() -> bool:
            self.tend()
            return answers(self.settings)

        wait_until(f"{self.settings.url} answers, {self.log}", ready)

    def client(self, patience_s: float, timeout_s: float) -> Client:
        """Return a client of the API."""
        return Client(
            self.settings.url, read_token(self.settings.token_file), timeout_s=timeout_s, patience_s=patience_s
        )

    def mlflow(self) -> httpx.Client:
        """Return a client of MLflow's REST API."""
        served = json.loads((self.home / "address.json").read_text())
        settings = Settings.model_validate(self.settings.model_dump() | served)
        return httpx.Client(
            base_url=f"{settings.mlflow_url}/api/2.0/mlflow/", auth=sign_in(settings), timeout=30, trust_env=False
        )

    def processes(self) -> list[psutil.Process]:
        """Return all processes of the installation."""
        return processes_of(self.home)

    def stop(self) -> list[str]:
        """End `serve` by SIGTERM; return the command lines of what is left afterwards."""
        if self.serve is not None and self.serve.poll() is None:
            self.serve.send_signal(signal.SIGTERM)
            self.serve.wait(60)
        return [" ".join(_command(process)) for process in self.processes()]

    def end(self) -> None:
        """Kill whatever lives."""
        while left := self.processes():
            for process in left:
                _kill(process)
            time.sleep(0.1)
        if self.serve is not None:
            self.serve.wait()

    def keep_evidence(self, to: Path) -> None:
        """Copy database, logs and what trials wrote, so that they can be looked at once the disk is gone."""
        ignored = shutil.ignore_patterns("ray", "cache", "filler", "*.safetensors", "*.pt", "address.json")
        shutil.copytree(self.home, to, ignore=ignored, symlinks=True, dirs_exist_ok=True)
        shutil.copy(self.log, to)


@contextmanager
def installed(disk: bool) -> Generator[Installation]:
    """Make the folder of an installation and, if it shall have one, its disk; at the end both go, and all processes."""
    folder = Path(tempfile.mkdtemp(prefix="sweeps-chaos-"))
    home = folder / "h"
    home.mkdir(mode=0o700)
    mounted = disk and _mount(home)
    installation = Installation(folder, mounted)
    try:
        yield installation
    finally:
        installation.end()
        if mounted:
            subprocess.run(["umount", "--lazy", str(home)], check=True)
        shutil.rmtree(folder, ignore_errors=True)


def _mount(home: Path) -> bool:
    """Mount a small disk in memory; return whether this process may."""
    if os.geteuid() != 0:
        return False
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m,mode=700", "tmpfs", str(home)]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def _kill(process: psutil.Process) -> None:
    try:
        process.kill()
    except psutil.NoSuchProcess:
        return
