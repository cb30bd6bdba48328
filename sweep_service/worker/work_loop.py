"""The worker: claims sweeps, keeps one runner process alive for each, builds their reports, feeds MLflow."""

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from _thread import start_new_thread
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from sqlalchemy.exc import InterfaceError, OperationalError, SQLAlchemyError

from sweep_service.errors import ServiceError, StaleEpoch
from sweep_service.processes.child_processes import log_tail, start, stop, this_host
from sweep_service.runner.lease import LEASE_S, NO_RAY_EXIT_CODE
from sweep_service.runner.recovery import recover
from sweep_service.settings import Settings
from sweep_service.store import Fence, Store, open_store
from sweep_service.sweep.records import Sweep, SweepState, Trial, TrialState
from sweep_service.tracking.mlflow_api import MlflowApi
from sweep_service.tracking.projector import LAST_PASSES_S, Projector
from sweep_service.worker.interim_reports import InterimReports
from sweep_service.worker.reports import build_report

MAX_RUNNERS: Final = 4
"""Number of sweeps that one worker runs at a time, sharing Ray's slots, besides one that is being cancelled."""
MAX_FAILURES: Final = 3
"""Number of runners in a row that may fail without progress before their sweep is given up."""
LONGEST_BACKOFF_S: Final = 30.0
REPORT_LEASE_S: Final = 600.0
_TICK_S: Final = 0.2
_CLAIM_EVERY_S: Final = 0.5
_STOP_GRACE_S: Final = 2.0
_NO_DATABASE: Final = (OperationalError, InterfaceError)

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
class Worker:
    """Keeps runners alive from the main thread, which must outlive them, because they end when it ends.

    Args:
        store, settings: what runners and reports work on; settings pass to runners in the environment.
    """

    store: Store
    settings: Settings
    _runners: dict[str, _Runner] = field(default_factory=dict[str, "_Runner"])
    _failures: dict[str, int] = field(default_factory=dict[str, int])
    _unreportable: set[str] = field(default_factory=set[str])

    def __post_init__(self) -> None:
        self._interim = InterimReports(self.store, self.settings)

    def run(self, stopped: threading.Event) -> None:
        """Work until `stopped` is set; then end all runners and release their sweeps."""
        next_claim = 0.0
        try:
            while not stopped.wait(_TICK_S):
                try:
                    for runner in [runner for runner in self._runners.values() if runner.process.poll() is not None]:
                        del self._runners[runner.sweep.id]
                        self._after(runner)
                    if time.monotonic() >= next_claim:
                        next_claim = time.monotonic() + _CLAIM_EVERY_S
                        self._claim()
                        self._report_ended()
                        self._interim.go_on()
                except StaleEpoch:
                    log.exception("another worker has taken over a sweep")
                except SQLAlchemyError:
                    log.exception("the database does not answer; trying again")
                    stopped.wait(1)
        finally:
            for runner in self._runners.values():
                runner.process.terminate()
            with suppress(SQLAlchemyError):
                self._interim.stop()
            for runner in self._runners.values():
                stop(runner.process, _STOP_GRACE_S)
                self.store.release_lease(runner.fence)

    def _claim(self) -> None:
        room = MAX_RUNNERS - len(self._runners)
        if room < 0:
            return
        sweep = self.store.claim(f"{this_host()}:{os.getpid()}", LEASE_S, to_cancel=room == 0)
        if sweep is None:
            return
        log.info("claimed %s (%s), epoch %d", sweep.id, sweep.state, sweep.epoch)
        if sweep.state is SweepState.FINALIZING:
            self._finalize(Fence(sweep.id, sweep.epoch))
        else:
            self._start(sweep)

    def _report_ended(self) -> None:
        """Build the reports of sweeps that failed or were cancelled, for their results are worth reading too."""
        for sweep_id in set(self.store.unreported()) - self._unreportable:
            try:
                self.store.put_report(sweep_id, *build_report(self.store, sweep_id, self.settings))
            except _NO_DATABASE:
                raise
            except Exception:  # as in _finalize
                log.exception("the report of %s failed", sweep_id)
                self._unreportable.add(sweep_id)

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
        if not sweep.state.needs_worker:
            self._failures.pop(sweep.id, None)
            self.store.release_lease(runner.fence)
            return
        if sweep.state is SweepState.FINALIZING:
            self._failures.pop(sweep.id, None)
            self._finalize(runner.fence)
            return
        if self._progress(sweep.id) > runner.progress:
            self._failures.pop(sweep.id, None)
        failures = self._failures[sweep.id] = self._failures.get(sweep.id, 0) + (code != NO_RAY_EXIT_CODE)
        log.warning("the runner of %s ended with code %s; failures in a row: %d", sweep.id, code, failures)
        if failures >= MAX_FAILURES:
            self._give_up(runner.fence, f"its runner failed {failures} times in a row: {log_tail(runner.log)}")
        elif failures > 1 or code == NO_RAY_EXIT_CODE:
            self.store.renew_lease(runner.fence, min(LONGEST_BACKOFF_S, 2.0**failures))  # claimed again after that
        else:
            self.store.release_lease(runner.fence)

    def _give_up(self, fence: Fence, message: str) -> None:
        self._failures.pop(fence.sweep_id, None)
        recover(self.store, fence, self.store.get_sweep(fence.sweep_id))
        self.store.set_sweep_state(fence, SweepState.FAILED, message)

    def _finalize(self, fence: Fence) -> None:
        """Build the report, then mark the sweep as done. This takes seconds, which the lease covers."""
        try:
            self._interim.stop()
            self.store.renew_lease(fence, REPORT_LEASE_S)
            self.store.put_report(fence.sweep_id, *build_report(self.store, fence.sweep_id, self.settings))
            sweep, trials = self.store.get_sweep(fence.sweep_id), self.store.list_trials(fence.sweep_id)
            self.store.set_sweep_state(fence, *_end(sweep, trials))
        except ServiceError:
            log.exception("the report of %s was not built here", fence.sweep_id)
        except _NO_DATABASE:  # not the report's fault: built again when the database is back
            with suppress(SQLAlchemyError):
                self.store.release_lease(fence)
            raise
        except Exception as error:  # a report that cannot be built must not stop other sweeps
            log.exception("the report of %s failed", fence.sweep_id)
            message = f"the trials are done, but the report could not be built: {type(error).__name__}: {error}"
            self.store.set_sweep_state(fence, SweepState.FAILED, message)


def _end(sweep: Sweep, trials: Sequence[Trial]) -> tuple[SweepState, str | None]:
    """Return how a sweep has ended whose trials are done: FAILED if some ran and none of them has a result."""
    if sweep.desired_state.is_to_end:
        return SweepState.CANCELLED, sweep.message
    failed = [trial for trial in trials if trial.state is TrialState.FAILED]
    if failed and not any(trial.state.has_result for trial in trials):
        return SweepState.FAILED, f"no trial has a result; {len(failed)} failed, the first: {failed[0].message}"
    return SweepState.SUCCEEDED, sweep.message


def run_worker(settings: Settings) -> None:
    """Run a worker until SIGTERM or SIGINT."""
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    stopped = event_set_by_signals()
    store = open_store(settings.database_url)
    projection = threading.Thread(
        target=_project, args=(store, settings, stopped), name="mlflow-projection", daemon=True
    )
    projection.start()
    try:
        Worker(store, settings).run(stopped)
    finally:
        stopped.set()
        projection.join(LAST_PASSES_S)
        store.close()


def event_set_by_signals() -> threading.Event:
    """Return an event that SIGTERM and SIGINT set; to be called in the main thread.

    A handler runs in the main thread, between any two instructions of it. Setting an event takes a lock that the main
    thread may hold just then, waiting for that event; so another thread sets it.
    """
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: start_new_thread(stopped.set, ()))
    return stopped


def _project(store: Store, settings: Settings, stopped: threading.Event) -> None:
    """Keep the MLflow server like the store until `stopped` is set; return at once without a server."""
    if settings.mlflow_url:
        Projector(store, MlflowApi(settings.mlflow_url)).run(stopped)


if __name__ == "__main__":
    run_worker(Settings())
