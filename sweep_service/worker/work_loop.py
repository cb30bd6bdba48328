"""The worker: claims sweeps, keeps one runner process alive for each, has their reports built, feeds MLflow."""

import logging
import os
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from sqlalchemy.exc import SQLAlchemyError

from sweep_service.errors import StaleEpoch
from sweep_service.processes.child_processes import log_tail, start, stop, this_host
from sweep_service.runner.lease import LEASE_S, NO_RAY_EXIT_CODE
from sweep_service.runner.recovery import recover
from sweep_service.runner.wishes import interruption_for
from sweep_service.settings import Settings
from sweep_service.store import Fence, Store, open_store
from sweep_service.sweep.records import Sweep, SweepState
from sweep_service.tracking.credentials import certificates, sign_in
from sweep_service.tracking.mlflow_api import MlflowApi
from sweep_service.tracking.projector import LAST_PASSES_S, Projector
from sweep_service.worker.heartbeat import Heartbeat
from sweep_service.worker.report_builder import ReportBuilder
from trainers.process.signals import hear_stop_signals

MAX_RUNNERS: Final = 4
"""Number of sweeps that one worker runs at a time, sharing Ray's slots, besides one that is being cancelled."""
MAX_FAILURES: Final = 3
"""Number of runners in a row that must fail without progress before their sweep is given up."""
PATIENCE_S: Final = 300.0
"""Seconds for which they must have failed, too: what ails a machine for seconds costs no sweep."""
LONGEST_BACKOFF_S: Final = 60.0
_TICK_S: Final = 0.2
_CLAIM_EVERY_S: Final = 0.5
_STOP_GRACE_S: Final = 2.0

log = logging.getLogger(__name__)


@dataclass
class _Runner:
    sweep: Sweep
    process: subprocess.Popen[bytes]
    log: Path
    progress: int
    """The sweep's progress when this runner started."""

    @property
    def fence(self) -> Fence:
        return Fence(self.sweep.id, self.sweep.epoch)


@dataclass
class _Failures:
    """Runners of one sweep that have failed in a row, without progress between them."""

    count: int = 0
    since: float = field(default_factory=time.monotonic)
    """The time of the first, in seconds."""

    @property
    def is_hopeless(self) -> bool:
        return self.count >= MAX_FAILURES and time.monotonic() - self.since >= PATIENCE_S


@dataclass
class Worker:
    """Keeps runners alive from the main thread, which must outlive them, because they end when it ends.

    Args:
        store, settings: what runners and reports work on; settings pass to runners in the environment.
    """

    store: Store
    settings: Settings
    _runners: dict[str, _Runner] = field(default_factory=dict[str, "_Runner"])
    _failures: dict[str, _Failures] = field(default_factory=dict[str, _Failures])

    def __post_init__(self) -> None:
        self._reports = ReportBuilder(self.store, self.settings)

    def run(self, stopped: threading.Event) -> None:
        """Work until `stopped` is set; then end all runners and release their sweeps."""
        next_claim, heartbeat = 0.0, Heartbeat(self.settings)
        try:
            while not stopped.wait(_TICK_S):
                heartbeat.beat()
                try:
                    for runner in [runner for runner in self._runners.values() if runner.process.poll() is not None]:
                        del self._runners[runner.sweep.id]
                        self._after(runner)
                    if time.monotonic() >= next_claim:
                        next_claim = time.monotonic() + _CLAIM_EVERY_S
                        self._claim()
                        self._reports.go_on()
                except StaleEpoch:
                    log.exception("another worker has taken over a sweep")
                except SQLAlchemyError:
                    log.exception("the database does not answer; trying again")
                    stopped.wait(1)
                except OSError:
                    log.exception("a process could not be started; trying again")
                    stopped.wait(1)
        finally:
            for runner in self._runners.values():
                runner.process.terminate()
            with suppress(SQLAlchemyError):
                self._reports.stop()
            for runner in self._runners.values():
                stop(runner.process, _STOP_GRACE_S)
                with suppress(SQLAlchemyError):  # the lease runs out by itself
                    self.store.release_lease(runner.fence)
            heartbeat.stop()

    def _claim(self) -> None:
        """Take over the next sweep, if there is room for a runner; what needs none to end is ended on the way."""
        room = MAX_RUNNERS - len(self._runners)
        while room >= 0:
            sweep = self.store.claim(f"{this_host()}:{os.getpid()}", LEASE_S, to_cancel=room == 0)
            if sweep is None:
                return
            log.info("claimed %s (%s), epoch %d", sweep.id, sweep.state, sweep.epoch)
            interruption = interruption_for(sweep.desired_state)
            if interruption is None or sweep.state is not SweepState.QUEUED:
                self._start(sweep)
                return
            fence = Fence(sweep.id, sweep.epoch)
            self.store.set_sweep_state(fence, interruption.state)
            self.store.release_lease(fence)

    def _start(self, sweep: Sweep) -> None:
        path = self.settings.storage / sweep.id / "runner.log"
        command = [sys.executable, "-m", "sweep_service.runner", sweep.id, str(sweep.epoch)]
        process = start(command, {**os.environ, **self.settings.environment()}, path)
        self._runners[sweep.id] = _Runner(sweep, process, path, self._progress(sweep.id))

    def _progress(self, sweep_id: str) -> int:
        """Return a number that rises as a sweep progresses: updates recorded plus trials ended."""
        return sum(1 + trial.step if trial.state.is_over else trial.step for trial in self.store.list_trials(sweep_id))

    def _after(self, runner: _Runner) -> None:
        """Handle the end of a runner. Its lease is ours until we release it."""
        stop(runner.process, 0)  # closes its lifeline, and ends what may be left of it
        code, sweep = runner.process.returncode, self.store.get_sweep(runner.sweep.id)
        if sweep.epoch != runner.sweep.epoch:
            return
        if not sweep.state.needs_runner:
            self._failures.pop(sweep.id, None)
            self.store.release_lease(runner.fence)
            return
        if self._progress(sweep.id) > runner.progress:
            self._failures.pop(sweep.id, None)
        failures = self._failures.get(sweep.id, _Failures())
        if code != NO_RAY_EXIT_CODE:
            failures.count += 1
            self._failures[sweep.id] = failures
        log.warning("the runner of %s ended with code %s; failures in a row: %d", sweep.id, code, failures.count)
        if failures.is_hopeless:
            message = (
                f"its runner failed {failures.count} times in a row without progress, the last with exit code {code}"
            )
            self._give_up(runner.fence, f"{message}: {log_tail(runner.log)}")
        elif failures.count > 1 or code == NO_RAY_EXIT_CODE:
            pause_s = min(LONGEST_BACKOFF_S, 2.0**failures.count)
            self.store.renew_lease(runner.fence, pause_s)  # claimed again after that
        else:
            self.store.release_lease(runner.fence)

    def _give_up(self, fence: Fence, message: str) -> None:
        self._failures.pop(fence.sweep_id, None)
        recover(self.store, fence, self.store.get_sweep(fence.sweep_id))
        self.store.set_sweep_state(fence, SweepState.FAILED, message)


def run_worker(settings: Settings) -> None:
    """Run a worker until SIGTERM or SIGINT."""
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    stopped = threading.Event()
    hear_stop_signals(lambda _: stopped.set())
    tracker = MlflowApi(settings.mlflow_url, sign_in(settings), certificates()) if settings.mlflow_url else None
    store = open_store(settings.database_url)
    project = Projector(store, tracker).run if tracker else threading.Event.is_set
    projection = threading.Thread(target=project, args=(stopped,), name="mlflow-projection", daemon=True)
    projection.start()
    try:
        Worker(store, settings).run(stopped)
    finally:
        stopped.set()
        projection.join(LAST_PASSES_S)
        store.close()


if __name__ == "__main__":
    run_worker(Settings())
