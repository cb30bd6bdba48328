"""Processes of an installation by their roles, and its living trainers."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from tests.chaos.installation import Installation
from tests.sweep_stack import command_of

ROLES: Final = (
    "api",
    "worker",
    "runner",
    "actor",
    "trainer",
    "fork server",
    "evaluation",
    "raylet",
    "agent",
    "gcs",
    "head",
    "dashboard",
    "mlflow",
    "keeper",
    "serve",
)
"""Roles that a process may have."""
_LAST_WORDS: Final = (
    ("sweep_service api", "api"),
    ("sweep_service worker", "worker"),
    ("runner.preloaded", "fork server"),
)


@dataclass(frozen=True)
class Victim:
    """A process of the installation, and whose work it does."""

    role: str
    process: psutil.Process
    sweep_id: str | None = None
    """The sweep on which it works, if it is one alone."""
    work_id: str | None = None
    """The trial or evaluation on which it works, if it is one alone."""

    def __str__(self) -> str:
        return f"{self.role} {self.process.pid}" + (f" of {self.work_id or self.sweep_id}" if self.sweep_id else "")


def victims(installation: Installation, role: str) -> list[Victim]:
    """Return the living processes with this role."""
    return [victim for victim in _all(installation) if victim.role == role]


def _all(installation: Installation) -> Iterator[Victim]:
    serve, storage = installation.serve, installation.settings.storage
    if serve is not None and serve.poll() is None:
        yield Victim("serve", psutil.Process(serve.pid))
    for process in installation.processes():
        command = command_of(process)
        if not command:
            continue
        if _keeps(command):
            yield Victim("keeper", process)
            continue
        joined = " ".join(command)
        if (work := _work(storage, process.pid)) is not None:
            yield Victim("evaluation" if work[1].startswith("evl_") else "trainer", process, *work)
            if (actor := _actor_above(process)) is not None:
                yield Victim("actor", actor, *work)
        elif "sweep_service.runner" in command:
            yield Victim("runner", process, command[command.index("sweep_service.runner") + 1])
        elif command[0].endswith("raylet/raylet"):
            yield Victim("raylet", process)
            yield from (Victim("agent", child) for child in _agents(process))
        elif command[0].endswith("gcs/gcs_server"):
            yield Victim("gcs", process)
        elif "ray.scripts.scripts" in joined:
            yield Victim("head", process)
        elif "dashboard/dashboard.py" in joined:
            yield Victim("dashboard", process)
        elif "uvicorn" in command and "mlflow" in joined:
            yield Victim("mlflow", process)
        else:
            yield from (Victim(role, process) for words, role in _LAST_WORDS if joined.endswith(words))


def _agents(raylet: psutil.Process) -> list[psutil.Process]:
    """Return a raylet's agents, which have given themselves titles, and hide their environment behind them."""
    try:
        children = raylet.children()
    except psutil.NoSuchProcess:
        return []
    return [child for child in children if " ".join(command_of(child)).startswith(("ray::Dash", "ray::Runtime"))]


def _actor_above(trainer: psutil.Process) -> psutil.Process | None:
    """Return the process in Ray above a trainer and those that forked and keep it."""
    try:
        return next((one for one in trainer.parents() if " ".join(one.cmdline()).startswith("ray::trial-")), None)
    except psutil.NoSuchProcess:
        return None


def _keeps(command: list[str]) -> bool:
    return "trainers.process.keeper" in command


def _work(storage: Path, pid: int) -> tuple[str, str] | None:
    """Return sweep and trial, or evaluation, in whose folder a process works."""
    try:
        folder = Path(os.readlink(f"/proc/{pid}/cwd"))
    except OSError:
        return None
    parts = folder.relative_to(storage).parts if folder.is_relative_to(storage) else ()
    return (parts[0], parts[1]) if len(parts) > 2 else None


def trainers_at_work(storage: Path) -> dict[str, list[int]]:
    """Return the pids of the living trainers of each trial and evaluation: whatever works in the folder of one."""
    found: dict[str, list[int]] = {}
    for pid in map(int, filter(str.isdecimal, os.listdir("/proc"))):
        if (work := _work(storage, pid)) is not None and not _is_dead(pid) and not _is_keeper(pid):
            found.setdefault(work[1], []).append(pid)
    return found


def _is_keeper(pid: int) -> bool:
    """Whether a process keeps a trainer of one's own, in whose folder it is, too."""
    try:
        return _keeps(Path(f"/proc/{pid}/cmdline").read_text(errors="replace").split("\0"))
    except OSError:
        return False


def _is_dead(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] in (b"Z", b"X")
    except OSError:
        return True
