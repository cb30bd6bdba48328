"""The four services of the stack: the command that starts each, and the check that it is ready."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Final

import httpx

from sweep_service.auth import ensure_token
from sweep_service.processes.child_processes import start_kept, stop
from sweep_service.processes.port_owners import check_port
from sweep_service.processes.ray_head import (
    client_environment,
    head_command,
    head_environment,
    is_ready,
    new_ray_token,
    short_enough,
)
from sweep_service.serve.checks import free_port
from sweep_service.settings import Settings, without_hub_tokens
from sweep_service.tracking.credentials import sign_in

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
    prepare: Callable[[], None] = lambda: None
    """Called before each start."""
    process: subprocess.Popen[bytes] | None = None
    _started_at: float = 0.0
    _failures: int = 0
    _restart_at: float | None = None

    def start(self, keep_log: bool = True) -> None:
        """Start the process, for the first time or again."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        self.log.write_bytes(self.log.read_bytes()[-LOG_BYTES:] if keep_log and self.log.exists() else b"")
        self.stop(0)
        self.prepare()
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


def services(
    settings: Settings, ray_temp_dir: Path | None, own_mlflow: bool, cpus: int | None, gpus: int | None
) -> list[Service]:
    """Return the services of these settings, none of them started.

    Args:
        ray_temp_dir: Ray's folder; None if another's Ray is used.
        own_mlflow: whether to start MLflow; otherwise another's is used, or none.
    """
    logs = settings.home / "logs"
    common = {**without_hub_tokens(os.environ), **_QUIET, **settings.environment()}
    if ray_temp_dir is not None:
        common |= client_environment(settings.home / "ray-token")
    api, worker = ([*_PYTHON_MODULE, "sweep_service", name] for name in ("api", "worker"))
    return [
        *([] if ray_temp_dir is None else [_ray(settings, common, ray_temp_dir, cpus, gpus)]),
        *([_mlflow(settings, common)] if own_mlflow else []),
        Service("api", api, common, logs / "api.log", _probe(f"{settings.url}/readyz")),
        Service("worker", worker, common, logs / "worker.log", lambda: True),
    ]


def _ray(settings: Settings, common: dict[str, str], temp_dir: Path, cpus: int | None, gpus: int | None) -> Service:
    log = settings.home / "logs" / "ray.log"
    port, token_file = _port(settings.ray_address), settings.home / "ray-token"
    command = head_command(port, temp_dir, cpus or _cores(), _gpus() if gpus is None else gpus)
    environment = common | head_environment(token_file, free_port())

    def ready() -> bool:
        if not is_ready(log):
            return False
        check_port("127.0.0.1", port)
        return True

    return Service("ray", command, environment, log, ready, lambda: new_ray_token(token_file))


def _mlflow(settings: Settings, common: dict[str, str]) -> Service:
    home, log = settings.home / "mlflow", settings.home / "logs" / "mlflow.log"
    home.mkdir(exist_ok=True)
    _upgrade_mlflow(home, common)
    assert settings.mlflow_token_file is not None
    ensure_token(settings.mlflow_token_file)
    command = [*_PYTHON_MODULE, *_mlflow_arguments(home, _port(settings.mlflow_url))]
    environment = common | {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    return Service("mlflow", command, environment, log, _probe(f"{settings.mlflow_url}/health", sign_in(settings)))


def _port(address: str) -> int:
    return int(address.rpartition(":")[2])


def ray_folder(settings: Settings) -> Path:
    """Return where Ray makes its folder: below home, or if that is too long a path for Ray's sockets, in a new folder.

    Ray opens its folder to everybody (0777), so it always lies in one that only its owner may enter.
    """
    if settings.ray_temp_dir is None and short_enough(settings.home / "ray"):
        return settings.home / "ray"
    return Path(tempfile.mkdtemp(prefix="sweeps-", dir=settings.ray_temp_dir)) / "ray"


def _cores() -> int:
    return len(os.sched_getaffinity(0))


def _gpus() -> int:
    return len(list(Path("/proc/driver/nvidia/gpus").glob("*")))


def _mlflow_arguments(home: Path, port: int) -> list[str]:
    return [
        *("mlflow", "server", "--app-name", "sweeps", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"),
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


def _probe(url: str, auth: httpx.Auth | None = None) -> Callable[[], bool]:
    """Return what tells whether a service answers.

    Raises, when called: StrangerListens, if the address is somebody else's.
    """

    def answers() -> bool:
        try:
            with httpx.Client(auth=auth, timeout=1, verify=False, trust_env=False) as client:  # plain HTTP
                return client.get(url).status_code == 200
        except httpx.TransportError:  # a port of the ephemeral range may even be connected to itself
            return False

    return answers
