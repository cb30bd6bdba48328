"""The four services of the stack: the command that starts each, and the check that it is ready."""

import hashlib
import http.client
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Final

from sweep_service.processes.child_processes import start_kept, stop
from sweep_service.processes.ray_head import client_environment, head_command, head_environment, is_ready, short_enough
from sweep_service.serve.checks import free_port
from sweep_service.settings import Settings, without_hub_tokens

LOG_BYTES: Final = 1_000_000
"""Number of bytes of an earlier log that are kept at each start."""
SETTLED_S: Final = 60.0
"""Seconds after which a service that ends counts as having started, so that its pauses begin anew."""
LONGEST_BACKOFF_S: Final = 30.0

_PYTHON_MODULE: Final = (sys.executable, "-m")
_QUIET: Final = {"DO_NOT_TRACK": "1", "HF_HUB_OFFLINE": "1", "MLFLOW_DISABLE_TELEMETRY": "true", "NO_COLOR": "1"}


@dataclass
class Service:
    """A child process that is started, watched and started again."""

    name: str
    command: Sequence[str]
    environment: dict[str, str]
    log: Path
    ready: Callable[[], bool]
    process: subprocess.Popen[bytes] | None = None
    _started_at: float = 0.0
    _failures: int = 0
    _restart_at: float | None = None

    def start(self, keep_log: bool = True) -> None:
        """Start the process, for the first time or again."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        self.log.write_bytes(self.log.read_bytes()[-LOG_BYTES:] if keep_log and self.log.exists() else b"")
        self.stop(0)
        self.process = start_kept(self.command, self.environment, self.log)
        self._started_at, self._restart_at = time.monotonic(), None

    def stop(self, grace_s: float) -> None:
        """End the process and everything that it started."""
        if self.process is not None:
            stop(self.process, grace_s)

    @property
    def dead(self) -> bool:
        """Whether the process has ended since it was started."""
        return self.process is not None and self.process.poll() is not None

    def revive(self) -> float | None:
        """Start the process again if it has ended; if it keeps ending, the pauses grow.

        Returns: seconds until the next start when an end is first noticed, else None.
        """
        now = time.monotonic()
        if self._restart_at is None and self.dead:
            self._failures = 1 if now - self._started_at > SETTLED_S else self._failures + 1
            pause = min(LONGEST_BACKOFF_S, 0.25 * 2**self._failures)
            self._restart_at = now + pause
            return pause
        if self._restart_at is not None and now >= self._restart_at:
            self.start()
        return None


def services(settings: Settings, ray_temp_dir: Path, cpus: int | None, gpus: int | None) -> list[Service]:
    """Return the services of these settings, none of them started."""
    logs, mlflow, ray_token = settings.home / "logs", settings.home / "mlflow", settings.home / "ray-token"
    common = {**without_hub_tokens(os.environ), **_QUIET, **settings.environment(), **client_environment(ray_token)}
    mlflow.mkdir(exist_ok=True)
    _upgrade_mlflow(mlflow, common)
    ray_port, mlflow_port = (int(address.rpartition(":")[2]) for address in (settings.ray_address, settings.mlflow_url))
    head = head_command(ray_port, ray_temp_dir, cpus or _cores(), _gpus() if gpus is None else gpus)
    head_variables = common | head_environment(ray_token, free_port())
    tracking = [*_PYTHON_MODULE, *_mlflow_arguments(mlflow, mlflow_port)]
    tracking_variables = common | {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    api, worker = ([*_PYTHON_MODULE, "sweep_service", name] for name in ("api", "worker"))
    return [
        Service("ray", head, head_variables, logs / "ray.log", lambda: is_ready(logs / "ray.log")),
        Service("mlflow", tracking, tracking_variables, logs / "mlflow.log", _probe(f"{settings.mlflow_url}/health")),
        Service("api", api, common, logs / "api.log", _probe(f"{settings.url}/readyz")),
        Service("worker", worker, common, logs / "worker.log", lambda: True),
    ]


def ray_folder(settings: Settings) -> Path:
    """Return Ray's folder: below home, or if that is too long a path for Ray's sockets, below /tmp."""
    if settings.ray_temp_dir is not None:
        return settings.ray_temp_dir / "ray"  # a folder of our own, for it is removed
    if short_enough(settings.home / "ray"):
        return settings.home / "ray"
    return Path("/tmp") / f"sweeps-{hashlib.sha256(os.fsencode(settings.home)).hexdigest()[:12]}"


def _cores() -> int:
    return len(os.sched_getaffinity(0))


def _gpus() -> int:
    return len(list(Path("/proc/driver/nvidia/gpus").glob("*")))


def _mlflow_arguments(home: Path, port: int) -> list[str]:
    return [
        *("mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"),
        *("--backend-store-uri", f"sqlite:///{home / 'mlflow.db'}"),
        *("--artifacts-destination", str(home / "artifacts")),
    ]


def _upgrade_mlflow(home: Path, environment: dict[str, str]) -> None:
    """Migrate an MLflow database that another version of MLflow made; a new one is made by the server."""
    mark, version = home / "version", metadata.version("mlflow")
    if (home / "mlflow.db").exists() and (not mark.exists() or mark.read_text() != version):
        command = [*_PYTHON_MODULE, "mlflow", "db", "upgrade", f"sqlite:///{home / 'mlflow.db'}"]
        subprocess.run(command, env=environment, check=True, capture_output=True)
    mark.write_text(version)


def _probe(url: str) -> Callable[[], bool]:
    def answers() -> bool:
        try:
            with urllib.request.urlopen(url, timeout=1) as answer:
                return answer.status == 200
        except (OSError, http.client.HTTPException):  # a port of the ephemeral range may even be connected to itself
            return False

    return answers
