"""Interim reports of running sweeps, built when somebody has asked for one.

Each is built in a process of its own, which may be ended at any time: training, runners and final reports go first.
`python -m sweep_service.worker.interim_reports SWEEP_ID`: started by the worker, with its lifeline on standard input.
"""

import argparse
import logging
import os
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from sweep_service.processes.child_processes import LIFELINE, log_tail, start, stop
from sweep_service.settings import Settings
from sweep_service.store import Store, open_store
from sweep_service.worker.reports import build_report
from trainers.process.lifeline import follow_parent

PAUSE_S: Final = 15.0
"""Least pause, in seconds, between two reports of a sweep; it is twice what the last one took if that is longer."""
LONGEST_S: Final = 600.0
"""Seconds after which building a report is given up."""

log = logging.getLogger(__name__)


@dataclass
class _Build:
    sweep_id: str
    process: subprocess.Popen[bytes]
    log: Path
    started: float = field(default_factory=time.monotonic)


@dataclass
class InterimReports:
    """Builds interim reports one after another for a worker, in whose main thread every method runs."""

    store: Store
    settings: Settings
    _build: _Build | None = None
    _not_before: dict[str, float] = field(default_factory=dict[str, float])

    def go_on(self) -> None:
        """Note that a report has been built, and begin the next one that is wanted. Never waits."""
        if self._build is not None:
            self._look_at(self._build)
        if self._build is None:
            now = time.monotonic()
            self._not_before = {sweep_id: until for sweep_id, until in self._not_before.items() if until > now}
            sweep_id = self.store.take_wanted_report(self._not_before)
            if sweep_id is not None:
                self._begin(sweep_id)

    def stop(self) -> None:
        """Stop building; the unfinished report stays wanted."""
        build, self._build = self._build, None
        if build is not None:
            stop(build.process, 0)
            self.store.want_report(build.sweep_id)

    def _begin(self, sweep_id: str) -> None:
        path = self.settings.storage / sweep_id / "interim.log"
        command = [sys.executable, "-m", "sweep_service.worker.interim_reports", sweep_id]
        process = start(command, {**os.environ, **self.settings.environment()}, path)
        self._build = _Build(sweep_id, process, path)

    def _look_at(self, build: _Build) -> None:
        took = time.monotonic() - build.started
        if build.process.poll() is None and took < LONGEST_S:
            return
        self._build = None
        stop(build.process, 0)  # closes its lifeline
        if build.process.returncode != 0:
            log.warning("no interim report of %s after %.0f s: %s", build.sweep_id, took, log_tail(build.log))
        self._not_before[build.sweep_id] = time.monotonic() + max(PAUSE_S, 2 * took)


def main() -> None:
    """Build one interim report and keep it, if the sweep still runs by then."""
    parser = argparse.ArgumentParser(
        "python -m sweep_service.worker.interim_reports", description="Build one report (internal)."
    )
    parser.add_argument("sweep_id")
    sweep_id: str = parser.parse_args().sweep_id
    follow_parent(LIFELINE)
    with suppress(OSError):
        os.nice(10)
    settings = Settings()
    store = open_store(settings.database_url)
    store.put_interim_report(sweep_id, *build_report(store, sweep_id, settings))
    store.close()


if __name__ == "__main__":
    main()
