"""The faults: what is killed, what stands still for a while, and what a machine refuses."""

import random
import signal
import sqlite3
import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

import psutil

from tests.chaos.installation import Installation
from tests.chaos.processes import ROLES, Victim, victims
from tests.chaos.returning import begin

REPLACED: Final = ("api", "worker", "runner", "mlflow")
"""Roles in which somebody notices a process that stands still, and starts another one in its place."""
REPLACED_WITHIN_S: Final = 150.0
"""Seconds within which this must have happened; `serve` waits 75 s for a worker, and may be stopped meanwhile."""
RETURNS_WITHIN_S: Final = 130.0
"""Seconds within which a returning runner has returned, or given up."""
_STANDS_S: Final = (3.0, 12.0)
_LACKS_S: Final = (4.0, 12.0)


@dataclass(frozen=True)
class Strike:
    """A fault that has been done."""

    kind: str
    said: str
    """The deed and its victim."""
    sweep_id: str | None = None
    """The sweep that must get further, if the fault was its alone."""
    work_id: str | None = None
    undo: Callable[[], str | None] = lambda: None
    """Ends the fault; returns what should have been otherwise by then."""
    lasts_s: float = 0.0
    """Seconds until `undo`."""
    replaced: Victim | None = None
    """The process that somebody must notice and replace before that."""
    at: float = field(default_factory=time.monotonic)
    """Time of the fault, on the monotonic clock."""

    @property
    def is_open(self) -> bool:
        """Whether the fault goes on until somebody notices it, which has not happened yet."""
        return self.replaced is not None and stands_still(self.replaced) and time.monotonic() < self.at + self.lasts_s


Fault = Callable[[Installation, random.Random], Strike | None]
"""Does a fault; None, if there is nothing now that it could hit."""


def kill(role: str, installation: Installation, rng: random.Random) -> Strike | None:
    """Kill a process with this role by SIGKILL."""
    victim = _choose(installation, role, rng)
    if victim is None or not _signal(victim, signal.SIGKILL):
        return None
    return Strike(f"kill {role}", f"SIGKILL of {victim}", victim.sweep_id, victim.work_id)


def stop(role: str, installation: Installation, rng: random.Random) -> Strike | None:
    """Have a process with this role stand still by SIGSTOP; it goes on after seconds, unless it is to be replaced."""
    victim = _choose(installation, role, rng)
    lasts_s = REPLACED_WITHIN_S if role in REPLACED else rng.uniform(*_STANDS_S)
    if victim is None or not _signal(victim, signal.SIGSTOP):
        return None
    said, whose = f"SIGSTOP of {victim}", (victim.sweep_id, victim.work_id)
    if role in REPLACED:
        undo = partial(_find_replaced, victim)
        return Strike(f"stop {role}", f"{said} until it is replaced", *whose, undo, lasts_s, victim)
    return Strike(f"stop {role}", f"{said} for {lasts_s:.0f} s", *whose, partial(_go_on, victim), lasts_s)


def fill_disk(installation: Installation, rng: random.Random) -> Strike | None:
    """Leave no byte free on the disk below the home for some seconds."""
    lasts_s, filled = rng.uniform(*_LACKS_S), ExitStack()
    filled.enter_context(full(installation.home / "filler"))
    return Strike("full disk", f"the disk is full for {lasts_s:.0f} s", undo=filled.close, lasts_s=lasts_s)


@contextmanager
def full(filler: Path) -> Generator[None]:
    """Leave no byte free on the disk on which this file is made."""
    stopped = threading.Event()
    thread = threading.Thread(target=_fill, args=(filler, stopped), daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()
        filler.unlink(missing_ok=True)


def lock_database(installation: Installation, rng: random.Random) -> Strike | None:
    """Hold SQLite's write lock for some seconds, as somebody who copies the database may."""
    lasts_s = rng.uniform(*_LACKS_S)
    connection = sqlite3.connect(installation.home / "sweeps.db", timeout=20, isolation_level=None)
    try:
        connection.execute("BEGIN EXCLUSIVE")
    except sqlite3.OperationalError:
        connection.close()
        return None
    return Strike("locked database", f"locked database for {lasts_s:.0f} s", undo=connection.close, lasts_s=lasts_s)


def take_handles(installation: Installation, rng: random.Random) -> Strike | None:
    """Let API or worker open no file and no connection for some seconds."""
    victim, lasts_s = _choose(installation, rng.choice(["api", "worker"]), rng), rng.uniform(*_LACKS_S)
    if victim is None:
        return None
    try:
        soft, hard = victim.process.rlimit(psutil.RLIMIT_NOFILE)
        victim.process.rlimit(psutil.RLIMIT_NOFILE, (victim.process.num_fds(), hard))
    except psutil.NoSuchProcess:
        return None

    def give_back() -> None:
        with suppress(psutil.NoSuchProcess):
            victim.process.rlimit(psutil.RLIMIT_NOFILE, (soft, hard))

    return Strike(
        "no handles", f"no free file handle for {victim} for {lasts_s:.0f} s", undo=give_back, lasts_s=lasts_s
    )


def return_late(installation: Installation, rng: random.Random) -> Strike | None:
    """Have another worker's runner stand still past its lease, and go on once it was replaced."""
    returning = begin(installation, rng)
    if returning is None:
        return None

    def judge() -> str | None:
        returning.join()
        return returning.broken

    said = f"another worker takes {returning.sweep_id} over, and its runner stands still past its lease"
    return Strike("returning runner", said, returning.sweep_id, undo=judge, lasts_s=RETURNS_WITHIN_S)


FAULTS: Final[Mapping[str, Fault]] = {
    **{f"kill {role}": partial(kill, role) for role in ROLES},
    **{f"stop {role}": partial(stop, role) for role in ROLES},
    "full disk": fill_disk,
    "locked database": lock_database,
    "no handles": take_handles,
    "returning runner": return_late,
}
"""Every kind of fault."""


def _choose(installation: Installation, role: str, rng: random.Random) -> Victim | None:
    found = [victim for victim in victims(installation, role) if not stands_still(victim)]
    return rng.choice(found) if found else None


def _signal(victim: Victim, number: int) -> bool:
    """Send a signal; return whether the process lived."""
    try:
        victim.process.send_signal(number)
    except psutil.NoSuchProcess:
        return False
    return True


def _go_on(victim: Victim) -> None:
    with suppress(psutil.NoSuchProcess):
        victim.process.send_signal(signal.SIGCONT)


def stands_still(victim: Victim) -> bool:
    """Whether exactly this process lives and is stopped."""
    try:
        return victim.process.is_running() and victim.process.status() == psutil.STATUS_STOPPED
    except psutil.NoSuchProcess:
        return False


def _find_replaced(victim: Victim) -> str | None:
    """Say so if a process that should have been replaced still stands still; then let it go on."""
    if not stands_still(victim):
        return None
    _go_on(victim)
    return f"{victim} stood still for {REPLACED_WITHIN_S:.0f} s, and nobody has replaced it"


def _fill(path: Path, stopped: threading.Event) -> None:
    """Take what is free on the disk, and whatever is freed, until `stopped` is set."""
    block = b"\0" * (1 << 20)
    with path.open("wb", buffering=0) as file:
        while not stopped.is_set():
            try:
                file.write(block)
            except OSError:
                block = block[: max(4096, len(block) // 2)]
                stopped.wait(0.02)
