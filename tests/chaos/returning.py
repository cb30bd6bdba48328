"""A fault of its own: the runner of another worker stands still past its lease, and goes on when it was replaced.

With PostgreSQL the workers of several machines share the sweeps, and a machine may stand still: a virtual one that is
moved, a laptop that sleeps. Here this process plays the other worker.
"""

import json
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

import psutil
from sqlalchemy.exc import SQLAlchemyError

from sweep_service.errors import ServiceError
from sweep_service.runner.lease import LEASE_S, RENEW_EVERY_S
from sweep_service.store import Store, open_store
from tests.chaos.installation import Installation
from tests.chaos.processes import Victim, victims
from tests.waiting import wait_until

ENDS_WITHIN_S: Final = 20.0
"""Seconds within which a runner must end that goes on after another has taken its sweep over; it asks every 2 s."""
_WAITS_S: Final = 60.0
_WORKS_S: Final = (3.0, 8.0)
_LATE_S: Final = (1.0, 4.0)


class ReturningRunner(threading.Thread):
    """Takes a sweep over as another worker would, and has its runner stand still until it is replaced.

    The thread lives as long as the runner, which ends with it.
    """

    def __init__(self, installation: Installation, worker: Victim, victim: Victim, rng: random.Random) -> None:
        super().__init__(name="returning-runner", daemon=True)
        self._installation, self._worker, self._victim = installation, worker, victim
        self._database = installation.home / "sweeps.db"
        self.sweep_id = str(victim.sweep_id)
        self.broken: str | None = None
        """Sentences on what should have been otherwise."""
        self.came_back = False
        """Whether it went on after another had taken its place."""
        self._works_s, self._late_s = rng.uniform(*_WORKS_S), rng.uniform(*_LATE_S)

    def run(self) -> None:
        """Do all steps; give up, without a word, if another fault gets in the way."""
        store = open_store(self._installation.settings.database_url)
        try:
            with suppress(psutil.NoSuchProcess, ServiceError, SQLAlchemyError, TimeoutError, OSError):
                self._return(store)
        finally:
            store.close()

    def _return(self, store: Store) -> None:
        environment = {**self._installation.environment, **self._worker.process.environ()}
        epoch = self._take_over(store)
        served = json.loads((self._installation.home / "address.json").read_text())
        environment["SWEEPS_RAY_ADDRESS"] = served["ray_address"]
        command = [sys.executable, "-m", "sweep_service.runner", self.sweep_id, str(epoch)]
        with (self._installation.folder / "returning.log").open("ab") as log:
            runner = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=log, stderr=log)
        assert runner.stdin is not None
        try:
            time.sleep(self._works_s)
            _stop_between_writes(psutil.Process(runner.pid), self._database)
            wait_until("another worker has taken over", lambda: store.get_sweep(self.sweep_id).epoch > epoch, _WAITS_S)
            time.sleep(self._late_s)
            runner.send_signal(signal.SIGCONT)
            self.came_back = runner.poll() is None
            runner.wait(ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            now = store.get_sweep(self.sweep_id).epoch
            self.broken = f"a runner of {self.sweep_id} goes on with epoch {epoch}, though epoch {now} has begun"
        finally:
            runner.kill()
            runner.wait()
            runner.stdin.close()

    def _take_over(self, store: Store) -> int:
        """Kill the sweep's runner while its worker stands still; claim the sweep once its lease has run out."""
        _stop_between_writes(self._worker.process, self._database)
        try:
            self._victim.process.kill()
            time.sleep(LEASE_S + RENEW_EVERY_S)
            others = [sweep.id for sweep in store.list_sweeps(500) if sweep.id != self.sweep_id]
            claimed = store.claim("another worker", 2 * LEASE_S, besides=others)
            if claimed is None:
                raise TimeoutError(f"{self.sweep_id} needs no runner any more")
            return claimed.epoch
        finally:
            with suppress(psutil.NoSuchProcess):
                self._worker.process.send_signal(signal.SIGCONT)


def _stop_between_writes(process: psutil.Process, database: Path) -> None:
    """Have a process stand still while it holds no lock of SQLite: on PostgreSQL it would lock one sweep, not all."""
    while True:
        process.send_signal(signal.SIGSTOP)
        connection = sqlite3.connect(database, timeout=1, isolation_level=None)
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            process.send_signal(signal.SIGCONT)
            time.sleep(0.05)
        else:
            return
        finally:
            connection.close()


def begin(installation: Installation, rng: random.Random) -> ReturningRunner | None:
    """Begin with a runner and the worker above it; None if there is none, or while another one returns."""
    runners, workers = victims(installation, "runner"), victims(installation, "worker")
    busy = any(isinstance(thread, ReturningRunner) for thread in threading.enumerate())
    if busy or not runners or not workers:
        return None
    returning = ReturningRunner(installation, workers[0], rng.choice(runners), rng)
    returning.start()
    return returning
