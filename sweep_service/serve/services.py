"""The four services of the stack: the command that starts each, and the check that it is ready."""

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Final

import httpx

from sweep_service.auth import ensure_token
from sweep_service.processes import heartbeat
from sweep_service.processes.child_processes import start_kept, stop
from sweep_service.processes.port_owners import check_port
from sweep_service.processes.ray_head import (
    MAX_FOLDER_BYTES,
    client_environment,
    head_command,
    head_environment,
    is_ready,
    new_ray_token,
)
from sweep_service.processes.vigil import Vigil
from sweep_service.serve.checks import free_port
from sweep_service.settings import Settings, without_hub_tokens
from sweep_service.tracking.credentials import sign_in

LOG_BYTES: Final = 1_000_000
"""Number of bytes of an earlier log that are kept at each start."""
SETTLED_S: Final = 10.0
"""Seconds for which a service must have been ready for its pauses to begin anew when it ends."""
READY_LOOK_EVERY_S: Final = 1.0
LONGEST_BACKOFF_S: Final = 30.0
LOOK_EVERY_S: Final = 5.0
"""Seconds between two looks at whether a service shows life."""
SILENT_S: Final = 30.0
"""A server that answers nothing for so many seconds hangs."""
NODE_SILENT_S: Final = 60.0
"""Seconds without life after which Ray's node hangs; all trials on it begin again from their checkpoints then."""
STILL_S: Final = heartbeat.DEAD_AFTER_S + 3 * heartbeat.BEAT_EVERY_S
"""A worker whose loop has not moved for so many seconds hangs; it may wait a minute for its database."""
STARTS_S: Final = 300.0
"""Seconds without any sign of life after which a service hangs that has just been started."""

_PYTHON_MODULE: Final = (sys.executable, "-m")
_QUIET: Final = {"DO_NOT_TRACK": "1", "HF_HUB_OFFLINE": "1", "MLFLOW_DISABLE_TELEMETRY": "true", "NO_COLOR": "1"}


@dataclass
class Service:
    """A child process that is started, watched and started again."""

    name: str
    command: Sequence[str]
    environment: dict[str, str]
    log: Path
    ready: Callable[[], bool] | None = None
    """True if it does its work; None: nothing tells that, and it counts as ready once it is started."""
    prepare: Callable[[], None] = lambda: None
    """Called before each start."""
    vigil: Vigil | None = None
    """Notices that the process lives and does nothing; None if nothing tells."""
    process: subprocess.Popen[bytes] | None = None
    _ready_at: float | None = None
    """When it was first seen to be ready since its last start."""
    _next_ready_look: float = 0.0
    _failures: int = 0
    _restart_at: float | None = None
    _trouble: str | None = None
    """Why it could not be started, as it was said."""

    def start(self, keep_log: bool = True) -> None:
        """Start the process, for the first time or again.

        Raises: OSError.
        """
        self.stop(0)
        self.log.parent.mkdir(parents=True, exist_ok=True)
        length = LOG_BYTES if keep_log else 0
        if self.log.exists() and self.log.stat().st_size > length:
            with suppress(OSError):  # a full disk may keep it as it is; no service waits for its log
                self.log.write_bytes(self.log.read_bytes()[-length:] if length else b"")
        self.prepare()
        self.process = start_kept(self.command, self.environment, self.log)
        self._restart_at, self._ready_at = None, None
        if self.vigil is not None:
            self.vigil.begin_anew()

    def stop(self, grace_s: float) -> None:
        """End the process and everything that it started."""
        if self.process is not None:
            stop(self.process, grace_s)

    @property
    def dead(self) -> bool:
        """True if the process has ended since it was started."""
        return self.process is not None and self.process.poll() is not None

    def look_after(self) -> str | None:
        """Start the process again if it has ended or hangs; if it keeps ending or cannot start, the pauses grow.

        Returns: what has happened, in words for people; None if it is nothing new.
        """
        if self._restart_at is None:
            return self._notice_end()
        if time.monotonic() < self._restart_at:
            return None
        try:
            self.start()
        except Exception as error:  # noqa: BLE001 (a full disk, no file handles: whatever it is, it may pass)
            news = f"{self.name} cannot be started ({error}); this is tried again and again, until it can"
            self._put_off()
        else:
            news = f"{self.name} has been started after all" if self._trouble else None
        self._trouble, before = (news if self._restart_at else None), self._trouble
        return news if news != before else None

    def _notice_end(self) -> str | None:
        if self.dead:
            what = "has ended"
        elif self.vigil is not None and self.vigil.hangs():
            what = f"has shown no life for {self.vigil.lifeless_s:.0f} s and was killed"
            self.stop(0)
        else:
            if self._ready_at is None and time.monotonic() >= self._next_ready_look:
                self._next_ready_look = time.monotonic() + READY_LOOK_EVERY_S
                self.is_ready()
            return None
        if self._ready_at is not None and time.monotonic() - self._ready_at > SETTLED_S:
            self._failures = 0
        return f"{self.name} {what}; it starts again in {self._put_off():.1f} s (see {self.log})"

    def is_ready(self) -> bool:
        """Look whether it does its work; if it has answered, that is a sign of life."""
        if self.ready is not None:
            if not self.ready():
                return False
            if self.vigil is not None:
                self.vigil.note_life()  # what hangs from now on has had its time to start
        self._ready_at = self._ready_at or time.monotonic()
        return True

    def _put_off(self) -> float:
        """Decide when to start the next time; return the seconds until then."""
        self._failures += 1
        pause_s = min(LONGEST_BACKOFF_S, 0.25 * 2.0**self._failures)
        self._restart_at = time.monotonic() + pause_s
        return pause_s


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
    answers = _vigil(_speaks(f"{settings.url}/livez"), SILENT_S)
    moves = _vigil(heartbeat.movement(heartbeat.worker_file(settings.home)), STILL_S)
    return [
        *([] if ray_temp_dir is None else [_ray(settings, common, ray_temp_dir, cpus, gpus)]),
        *([_mlflow(settings, common)] if own_mlflow else []),
        Service("api", api, common, logs / "api.log", _probe(f"{settings.url}/readyz"), vigil=answers),
        Service("worker", worker, common, logs / "worker.log", vigil=moves),
    ]


def _vigil(shows_life: Callable[[], bool], patience_s: float) -> Vigil:
    return Vigil(shows_life, patience_s, LOOK_EVERY_S, STARTS_S)


def _ray(settings: Settings, common: dict[str, str], temp_dir: Path, cpus: int | None, gpus: int | None) -> Service:
    log, token_file = settings.home / "logs" / "ray.log", settings.home / "ray-token"
    sign = heartbeat.node_file(settings.home)
    environment = common | head_environment(token_file, free_port(), sign)

    def ready() -> bool:
        if not is_ready(log):
            return False
        try:
            check_port("127.0.0.1", port)
        except ConnectionRefusedError:  # the log tells of an earlier head
            return False
        return True

    def prepare() -> None:
        """Take another port if the one of the earlier head has been taken meanwhile; the worker finds the new one."""
        nonlocal port
        sign.touch()  # from now on the node is judged by it
        new_ray_token(token_file)
        if ray.process is not None and (other := free_port(port)) != port:
            port, ray.command = other, head_of(other)
            note_addresses(settings.model_copy(update={"ray_address": f"127.0.0.1:{other}"}))

    def head_of(port: int) -> list[str]:
        cores, cards = len(os.sched_getaffinity(0)), len(list(Path("/proc/driver/nvidia/gpus").glob("*")))
        return head_command(port, temp_dir, cpus or cores, cards if gpus is None else gpus)

    port = _port(settings.ray_address)
    vigil = _vigil(heartbeat.movement(sign), NODE_SILENT_S)
    ray = Service("ray", head_of(port), environment, log, ready, prepare, vigil)
    return ray


def note_addresses(settings: Settings) -> None:
    """Tell clients of this home, the doctor and the worker where the services are, in `<home>/address.json`."""
    fields = {"url", "mlflow_url", "mlflow_token_file", "ray_address"}
    served = settings.model_dump(mode="json", include=fields, exclude_none=True)
    new = settings.home / "address.json.new"
    new.write_text(json.dumps(served))
    new.replace(settings.home / "address.json")


def _mlflow(settings: Settings, common: dict[str, str]) -> Service:
    home, log = settings.home / "mlflow", settings.home / "logs" / "mlflow.log"
    home.mkdir(exist_ok=True)
    database, mark, version = home / "mlflow.db", home / "version", metadata.version("mlflow")
    # another version of MLflow made it; a new one is made by the server
    if database.exists() and (not mark.exists() or mark.read_text() != version):
        command = [*_PYTHON_MODULE, "mlflow", "db", "upgrade", f"sqlite:///{database}"]
        subprocess.run(command, env=common, check=True, capture_output=True)
    mark.write_text(version)
    assert settings.mlflow_token_file is not None
    ensure_token(settings.mlflow_token_file)
    port = str(_port(settings.mlflow_url))
    command = [
        *(*_PYTHON_MODULE, "mlflow", "server", "--app-name", "sweeps"),
        *("--host", "127.0.0.1", "--port", port, "--workers", "1"),
        *("--backend-store-uri", f"sqlite:///{database}"),
        *("--artifacts-destination", str(home / "artifacts")),
    ]
    environment = common | {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    url, auth = f"{settings.mlflow_url}/health", sign_in(settings)
    return Service("mlflow", command, environment, log, _probe(url, auth), vigil=_vigil(_speaks(url, auth), SILENT_S))


def _port(address: str) -> int:
    return int(address.rpartition(":")[2])


def ray_folder(settings: Settings) -> Path:
    """Return the place of Ray's folder: below home, or if that is too long a path for Ray's sockets, in a new folder.

    Ray opens its folder to everybody (0777), so it always lies in one that only its owner may enter.
    """
    below_home = settings.home / "ray"
    if settings.ray_temp_dir is None and len(os.fsencode(below_home)) <= MAX_FOLDER_BYTES:
        return below_home
    return Path(tempfile.mkdtemp(prefix="sweeps-", dir=settings.ray_temp_dir)) / "ray"


def _probe(url: str, auth: httpx.Auth | None = None) -> Callable[[], bool]:
    """Return a function that is True if a service is well.

    Raises, when called: StrangerListens, if the address is somebody else's.
    """
    return lambda: _status(url, auth) == 200


def _speaks(url: str, auth: httpx.Auth | None = None) -> Callable[[], bool]:
    """Return a function that is True if a service answers at all: one that says what it lacks does not hang.

    Raises, when called: StrangerListens; OSError, if this process can open nothing, which says nothing of the service.
    """

    def answers() -> bool:
        socket.socket().close()
        return _status(url, auth) is not None

    return answers


def _status(url: str, auth: httpx.Auth | None) -> int | None:
    """Return the status that a server answers with; None if it does not answer within a second."""
    try:
        with httpx.Client(auth=auth, timeout=1, verify=False, trust_env=False) as client:  # plain HTTP
            return client.get(url).status_code
    except httpx.TransportError:  # a port of the ephemeral range may even be connected to itself
        return None
