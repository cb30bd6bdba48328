"""Checks before anything starts. Each failure is one sentence that says what to do."""

import errno
import shutil
import socket
from pathlib import Path
from typing import IO, Final

from sweep_service.errors import ServiceError
from sweep_service.processes.owner_lock import own
from sweep_service.processes.private_folders import NotPrivate, make_private
from sweep_service.settings import Settings

NEEDED_DISK_BYTES: Final = 1 << 30


class CannotStart(ServiceError):
    """The stack cannot start; the message says why and what to do."""


def preflight(settings: Settings) -> None:
    """Check, before anything starts, that nothing will stop it half-way.

    Raises: CannotStart.
    """
    home = settings.home
    try:
        make_private(home)
        (home / "serve.lock").touch(mode=0o600)
    except NotPrivate as error:
        raise CannotStart(str(error)) from error
    except OSError as error:
        raise CannotStart(
            f"the data folder {home} cannot be written ({error.strerror}); set SWEEPS_HOME to one that can"
        ) from error
    free = shutil.disk_usage(home).free
    if free < NEEDED_DISK_BYTES:
        raise CannotStart(
            f"only {free / 1e6:.0f} MB are free in {home}, {NEEDED_DISK_BYTES / 1e6:.0f} MB are needed; "
            "free some space, or set SWEEPS_HOME"
        )
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((settings.host, settings.port))
        except OSError as error:
            nowhere = isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL
            busy = "stop what uses it, or set SWEEPS_PORT to another one"
            remedy = "set SWEEPS_HOST to an address of this machine" if nowhere else busy
            raise CannotStart(
                f"port {settings.port} on {settings.host} cannot be used ({error.strerror}); {remedy}"
            ) from error


def locked(home: Path) -> IO[str]:
    """Lock the data folder for this process until the file is closed or the process ends.

    Raises: CannotStart, if another process has it.
    """
    return own(
        home / "serve.lock",
        lambda owner: CannotStart(f"another `sweeps serve` (process {owner}) uses {home}; stop it, or set SWEEPS_HOME"),
    )


def free_port(preferred: int = 0) -> int:
    """Return a loopback port that no process listens on now: `preferred` if it is free, else any."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections that are being closed do not count
        try:
            probe.bind(("127.0.0.1", preferred))
        except (OSError, OverflowError):
            probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
