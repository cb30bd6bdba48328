"""`sweeps serve`: API, worker, MLflow and a local Ray as child processes, kept alive, stopped together."""

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from types import FrameType, TracebackType
from typing import IO, Final, Self

from sweep_service.auth import server_token
from sweep_service.errors import ServiceError
from sweep_service.processes import start_kept, stop
from sweep_service.ray_head import (
    client_environment,
    ensure_ray_token,
    head_command,
    head_environment,
    is_ready,
    short_enough,
)
from sweep_service.settings import Settings
from sweep_service.store import open_store

READY_TIMEOUT_S: Final = 90.0
STOP_GRACE_S: Final = 5.0
WORKER_STOP_GRACE_S: Final = 15.0
"""Trials save themselves, and what MLflow does not have yet is carried over."""
NEEDED_DISK_BYTES: Final = 1 << 30
_SETTLED_S: Final = 60.0
_LONGEST_BACKOFF_S: Final = 30.0
_QUIET: Final = {"DO_NOT_TRACK": "1", "HF_HUB_OFFLINE": "1", "MLFLOW_DISABLE_TELEMETRY": "true", "NO_COLOR": "1"}


class CannotStart(ServiceError):
    """The stack cannot start; the message is one sentence that says why and what to do."""


@dataclass
class _Service:
    """A child process and how to tell that it is ready."""

    name: str
    command: Sequence[str]
    environment: dict[str, str]
    log: Path
    ready: Callable[[], bool]
    process: subprocess.Popen[bytes] | None = None
    started_at: float = 0.0
    failures: int = 0
    restart_at: float | None = None

    def start(self) -> None:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        self.log.write_bytes(self.log.read_bytes()[-1_000_000:] if self.name != "ray" and self.log.exists() else b"")
        if self.process is not None:
            stop(self.process, 0)
        self.process = start_kept(self.command, self.environment, self.log)
        self.started_at, self.restart_at = time.monotonic(), None

    @property
    def dead(self) -> bool:
        return self.process is not None and self.process.poll() is not None


@dataclass
class Stack:
    """The whole service on this machine, as a context manager; every process ends with it, also if this one is killed.

    Args:
        settings: home, host and port are taken from them; what they leave open is decided here, see `self.settings`.
        cpus: what Ray may give to trials; None: all cores.
        gpus: likewise; None: as many as the driver shows.
        say: gets a line for people now and then.
    Raises: CannotStart.
    """

    settings: Settings
    cpus: int | None = None
    gpus: int | None = None
    say: Callable[[str], None] = field(default=lambda line: print(line, file=sys.stderr, flush=True))  # noqa: T201
    _services: list[_Service] = field(default_factory=list[_Service])
    _lock: IO[str] | None = None
    _stopping: threading.Event = field(default_factory=threading.Event)
    _guard: threading.Thread | None = None

    def __enter__(self) -> Self:
        preflight(self.settings)
        self._lock = _locked(self.settings.home)
        try:
            self._prepare()
            for service in self._services:
                service.start()
            self._wait_until_ready()
        except BaseException:
            self.stop()
            raise
        self._guard = threading.Thread(target=self._keep_alive, name="guard", daemon=True)
        self._guard.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def process_id(self, name: str) -> int | None:
        """Return the pid of the keeper of `ray`, `mlflow`, `api` or `worker`; the program is its child."""
        service = next(service for service in self._services if service.name == name)
        return service.process.pid if service.process else None

    def _prepare(self) -> None:
        """Make folders, tokens and the database; decide on ports."""
        settings = self.settings
        server_token(settings.token_file, settings.host)
        open_store(settings.database_url).close()
        ray_port, mlflow_port = free_port(settings.port + 2), free_port(settings.port + 1)
        self._temp_dir = settings.ray_temp_dir or _ray_folder(settings.home)
        shutil.rmtree(self._temp_dir, ignore_errors=True)  # of an earlier serve
        ray_token = settings.home / "ray-token"
        ensure_ray_token(ray_token)
        self.settings = settings = settings.model_copy(
            update={
                "ray_address": f"127.0.0.1:{ray_port}",
                "ray_temp_dir": self._temp_dir,
                "mlflow_url": f"http://127.0.0.1:{mlflow_port}",
                "mlflow_public_url": f"http://127.0.0.1:{mlflow_port}",
            }
        )
        addresses = settings.model_dump(include={"url", "mlflow_url", "ray_address"})
        (settings.home / "address.json").write_text(json.dumps(addresses))  # where clients look
        common = {**os.environ, **_QUIET, **settings.environment(), **client_environment(ray_token)}
        logs, mlflow_home = settings.home / "logs", settings.home / "mlflow"
        mlflow_home.mkdir(exist_ok=True)
        _upgrade_mlflow(mlflow_home, common)
        module = [sys.executable, "-m"]
        command = head_command(
            ray_port, self._temp_dir, self.cpus or _cores(), _gpus() if self.gpus is None else self.gpus
        )
        self._services = [
            _Service(
                "ray",
                command,
                common | head_environment(ray_token, free_port()),
                logs / "ray.log",
                lambda: is_ready(logs / "ray.log"),
            ),
            _Service(
                "mlflow",
                [*module, *_mlflow_arguments(mlflow_home, mlflow_port)],
                common | {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"},
                logs / "mlflow.log",
                lambda: _answers(f"{settings.mlflow_url}/health"),
            ),
            _Service(
                "api",
                [*module, "sweep_service", "api"],
                common,
                logs / "api.log",
                lambda: _answers(f"{settings.url}/readyz"),
            ),
            _Service("worker", [*module, "sweep_service", "worker"], common, logs / "worker.log", lambda: True),
        ]

    def _wait_until_ready(self) -> None:
        began, waiting = time.monotonic(), list(self._services)
        while waiting:
            for service in [service for service in waiting if service.dead]:
                raise CannotStart(f"{service.name} ended at once; the end of {service.log}:\n{_tail(service.log)}")
            for service in [service for service in waiting if service.ready()]:
                waiting.remove(service)
                self.say(f"{service.name} is ready after {time.monotonic() - began:.1f} s")
            if time.monotonic() - began > READY_TIMEOUT_S:
                names = " and ".join(service.name for service in waiting)
                raise CannotStart(f"{names} not ready after {READY_TIMEOUT_S:.0f} s; see {waiting[0].log}")
            time.sleep(0.1)

    def _keep_alive(self) -> None:
        """Start again what has died, later and later if it goes on dying."""
        while not self._stopping.wait(0.2):
            now = time.monotonic()
            for service in self._services:
                if service.dead and service.restart_at is None:
                    settled = now - service.started_at > _SETTLED_S
                    service.failures = 1 if settled else service.failures + 1
                    pause = min(_LONGEST_BACKOFF_S, 0.25 * 2**service.failures)
                    service.restart_at = now + pause
                    self.say(f"{service.name} has ended; it starts again in {pause:.1f} s (see {service.log})")
                elif service.restart_at is not None and now >= service.restart_at:
                    service.start()

    def stop(self) -> None:
        """End everything, the worker first; about twenty seconds at most."""
        self._stopping.set()
        if self._guard is not None:
            self._guard.join()
        worker = [service for service in self._services if service.name == "worker"]
        _stop_together(worker, WORKER_STOP_GRACE_S)
        _stop_together([service for service in self._services if service not in worker])
        if self._services and not self._temp_dir.is_relative_to(self.settings.home):
            shutil.rmtree(self._temp_dir, ignore_errors=True)
        if self._lock is not None:
            self._lock.close()


def _stop_together(services: Sequence[_Service], grace_s: float = STOP_GRACE_S) -> None:
    processes = [service.process for service in services if service.process is not None]
    threads = [threading.Thread(target=stop, args=(process, grace_s)) for process in processes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def preflight(settings: Settings) -> None:
    """Find out before anything starts what would stop it half-way.

    Raises: CannotStart.
    """
    try:
        settings.home.mkdir(mode=0o700, parents=True, exist_ok=True)
        (settings.home / "serve.lock").touch()
    except OSError as error:
        raise CannotStart(
            f"the data folder {settings.home} cannot be written ({error.strerror}); set SWEEPS_HOME to one that can"
        ) from error
    free = shutil.disk_usage(settings.home).free
    if free < NEEDED_DISK_BYTES:
        raise CannotStart(
            f"only {free / 1e6:.0f} MB are free in {settings.home}, {NEEDED_DISK_BYTES / 1e6:.0f} MB are needed; "
            "free some space, or set SWEEPS_HOME"
        )
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((settings.host, settings.port))
        except OSError as error:
            raise CannotStart(
                f"port {settings.port} on {settings.host} cannot be used ({error.strerror}); "
                "stop what uses it, or set SWEEPS_PORT to another one"
            ) from error


def _locked(home: Path) -> IO[str]:
    lock = (home / "serve.lock").open("r+")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        owner = lock.read().strip()
        raise CannotStart(
            f"another `sweeps serve` (process {owner or 'unknown'}) uses {home}; stop it, or set SWEEPS_HOME"
        ) from None
    lock.truncate(0)
    lock.write(f"{os.getpid()}\n")
    lock.flush()
    return lock


def free_port(wanted: int = 0) -> int:
    """Return a loopback port that nobody listens on now: `wanted`, if it is one."""
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", wanted))
        except (OSError, OverflowError):
            probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _ray_folder(home: Path) -> Path:
    if short_enough(home / "ray"):
        return home / "ray"
    return Path("/tmp") / f"sweeps-{hashlib.sha256(os.fsencode(home)).hexdigest()[:12]}"


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
        command = [sys.executable, "-m", "mlflow", "db", "upgrade", f"sqlite:///{home / 'mlflow.db'}"]
        subprocess.run(command, env=environment, check=True, capture_output=True)
    mark.write_text(version)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=1) as answer:
            return answer.status == 200
    except (urllib.error.URLError, OSError):
        return False


def _tail(path: Path) -> str:
    return path.read_bytes()[-1500:].decode(errors="replace").strip() if path.exists() else ""


def main(settings: Settings, cpus: int | None = None, gpus: int | None = None) -> int:
    """Serve until SIGINT or SIGTERM; return the exit code."""
    stopped = threading.Event()

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        if stopped.is_set():
            raise SystemExit(1)
        stopped.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, on_signal)
    try:
        with contextlib.ExitStack() as scope:
            stack = scope.enter_context(Stack(settings, cpus, gpus))
            stack.say(f"API     {stack.settings.url}    token in {stack.settings.token_file}")
            stack.say(f"MLflow  {stack.settings.mlflow_url}")
            stack.say(f"data    {stack.settings.home}    logs in {stack.settings.home / 'logs'}")
            stack.say("Ctrl-C stops everything.")
            stopped.wait()
            stack.say("stopping")
    except CannotStart as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0
