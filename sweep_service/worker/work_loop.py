"""The worker: claims sweeps, keeps one runner process alive for each, has their reports built, feeds MLflow."""

import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from sqlalchemy.exc import SQLAlchemyError

from sweep_service.errors import StaleEpoch
from sweep_service.processes.child_processes import end_in_words, kill, log_tail, start, stop, this_host
from sweep_service.processes.heartbeat import Heartbeat, worker_file
from sweep_service.processes.vigil import Vigil
from sweep_service.runner.lease import GAVE_WAY_EXIT_CODE, LEASE_S, NO_RAY_EXIT_CODE, RENEW_EVERY_S
from sweep_service.runner.leftovers import remove_unneeded
from sweep_service.runner.recovery import recover
from sweep_service.runner.wishes import interruption_for
from sweep_service.settings import Settings
from sweep_service.store import Fence, Store, open_store
from sweep_service.sweep.records import Sweep, SweepState
from sweep_service.tracking.credentials import certificates, sign_in
from sweep_service.tracking.mlflow_api import MlflowApi
from sweep_service.tracking.projector import LAST_PASSES_S, Projector
from sweep_service.worker.deleter import Deleter
from sweep_service.worker.ray_wait import RayWait
from sweep_service.worker.reports.builder import ReportBuilder
from sweep_service.worker.sole_worker import sole_worker
from trainers.process.imports import keep_imports
from trainers.process.signals import hear_stop_signals

MAX_RUNNERS: Final = 6
"""Number of sweeps that have a runner at a time, besides one that is being cancelled; they take turns."""
MAX_FAILURES: Final = 3
"""Number of runners in a row that must fail without progress before their sweep is given up."""
PATIENCE_S: Final = 300.0
"""Seconds for which they must have failed, too: a machine fault that lasts seconds must not end a sweep."""
LONGEST_BACKOFF_S: Final = 60.0
STARTS_S: Final = 60.0
"""Seconds for which the worker renews the lease of a runner that it has started, which may import for long."""
PATIENCE_WITH_RUNNERS_S: Final = 3 * RENEW_EVERY_S
"""Seconds for which the lease of a living runner must have run out; then it hangs."""
UNANSWERED_S: Final = 75.0
"""Seconds without an answer of the database after which no runner lives that moves: it would have ended by itself."""
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
    vigil: Vigil
    """Notices that the runner lives and no longer renews its lease."""
    hangs: bool = False

    @property
    def fence(self) -> Fence:
        return Fence(self.sweep.id, self.sweep.epoch)


@dataclass
class Worker:
    """Keeps runners alive from the main thread, which must outlive them, because they end when it ends."""

    store: Store
    settings: Settings
    _runners: dict[str, _Runner] = field(default_factory=dict[str, "_Runner"])
    _failures: dict[str, tuple[int, float]] = field(default_factory=dict[str, tuple[int, float]])
    """Number of each sweep's runners that failed in a row without progress, and when the first did, in seconds."""
    _waiting: dict[str, Sweep] = field(default_factory=dict[str, Sweep])
    """Sweeps that this worker has claimed and holds until Ray answers."""
    _next_hold: float = 0.0
    _answered_at: float = field(default_factory=time.monotonic)
    """Time at which the database last answered a question about a runner, on the monotonic clock."""
    _troubles: dict[str, str] = field(default_factory=dict[str, str])
    """Present troubles by the part of the work that they prevent."""

    def __post_init__(self) -> None:
        self._reports = ReportBuilder(self.store, self.settings)
        self._ray = RayWait(self.settings)

    def run(self, stopped: threading.Event) -> None:
        """Work until `stopped` is set; then end all runners and release their sweeps."""
        next_claim, heartbeat = 0.0, Heartbeat(worker_file(self.settings.home))
        try:
            while not stopped.wait(_TICK_S):
                parts = [self._look_after_runners, self._look_after_waiting]
                if time.monotonic() >= next_claim:
                    next_claim = time.monotonic() + _CLAIM_EVERY_S
                    parts += [self._claim, self._reports.go_on]
                elif self._reports.builds:
                    parts += [self._reports.go_on]
                went_well = True
                for part in parts:
                    heartbeat.beat()  # each of them may wait for the database
                    went_well &= self._is_done(part)
                if not went_well:
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
            for sweep in self._waiting.values():
                with suppress(SQLAlchemyError):
                    self.store.release_lease(Fence(sweep.id, sweep.epoch))
            heartbeat.stop()

    def _is_done(self, part: Callable[[], None]) -> bool:
        """Do one part of the work; return whether nothing went wrong with it. The other parts go on in any case."""
        try:
            part()
        except StaleEpoch:
            log.exception("another worker has taken over a sweep")
        except Exception as error:  # what goes wrong with one sweep must not end the runners of others
            match error:
                case SQLAlchemyError():
                    what = "the database does not answer"
                case OSError():
                    what = "a process could not be started"
                case _:
                    what = "something went wrong that should not"
            if self._troubles.get(part.__name__) != str(error):  # else it has been said
                log.exception("%s; trying again, every second or so", what)
            self._troubles[part.__name__] = str(error)
            return False
        else:
            self._troubles.pop(part.__name__, None)
        return True

    def _look_after_runners(self) -> None:
        for runner in list(self._runners.values()):
            if runner.process.poll() is not None:
                del self._runners[runner.sweep.id]
                self._after(runner)
            elif self._hangs(runner):
                log.warning("the runner of %s hangs: it does not renew its lease; it is killed", runner.sweep.id)
                runner.hangs = True
                kill(runner.process)  # once it has ended, another one is started

    def _hangs(self, runner: _Runner) -> bool:
        """True if a living runner does not move: its lease has run out, or the database has not answered for too long.

        One that stands still in the middle of a transaction holds SQLite's lock, so that nobody is answered.
        """
        try:
            return runner.vigil.hangs()
        except SQLAlchemyError:
            if time.monotonic() - self._answered_at < UNANSWERED_S:
                raise
            return True

    def _claim(self) -> None:
        """Take over the next sweep, if there is room for a runner; what needs none to end is ended on the way."""
        room = MAX_RUNNERS - len(self._runners) - len(self._waiting)
        while room >= 0:
            ours = [*self._runners, *self._waiting]
            sweep = self.store.claim(f"{this_host()}:{os.getpid()}", LEASE_S, to_cancel=room == 0, besides=ours)
            if sweep is None:
                return
            log.info("claimed %s (%s), epoch %d", sweep.id, sweep.state, sweep.epoch)
            if not self._ended_without_a_runner(sweep):
                self._start_or_wait(sweep)
                return

    def _ended_without_a_runner(self, sweep: Sweep) -> bool:
        """Do what the user wishes of a sweep that has not begun, and return True, if that needs no runner."""
        interruption = interruption_for(sweep)
        if interruption is None or sweep.state is not SweepState.QUEUED:
            return False
        fence = Fence(sweep.id, sweep.epoch)
        if not interruption.state.trials_may_change:
            remove_unneeded(self.store.list_attempts(sweep.id))
        self.store.set_sweep_state(fence, interruption.state)
        self.store.release_lease(fence)
        return True

    def _start_or_wait(self, sweep: Sweep) -> None:
        """Start a runner; if it needs Ray, and Ray is away, hold the sweep until it answers, without another claim."""
        fence = Fence(sweep.id, sweep.epoch)
        if not (self._ray.answers or interruption_for(sweep)):
            self._waiting[sweep.id] = sweep
            delay = f"Ray at {self._ray.address} does not answer; the sweep waits for it, and then goes on by itself"
            self.store.say_what_delays(fence, delay)
            return
        path = self.settings.storage / sweep.id / "runner.log"
        command = [sys.executable, "-m", "sweep_service.runner", sweep.id, str(sweep.epoch)]
        settings = self.settings.model_copy(update={"ray_address": self._ray.address})
        process = start(command, {**os.environ, **settings.environment()}, path)
        vigil = Vigil(partial(self._is_held, fence, time.monotonic()), PATIENCE_WITH_RUNNERS_S, RENEW_EVERY_S)
        self._runners[sweep.id] = _Runner(sweep, process, path, progress_of(self.store, sweep.id), vigil)
        self._answered_at = time.monotonic()

    def _look_after_waiting(self) -> None:
        """Hold the sweeps that wait for Ray, until it answers or the user wishes something else."""
        if not self._waiting or time.monotonic() < self._next_hold:
            return
        self._next_hold = time.monotonic() + RENEW_EVERY_S
        for sweep_id, claimed in list(self._waiting.items()):
            del self._waiting[sweep_id]  # should another worker have taken it over
            self.store.renew_lease(Fence(sweep_id, claimed.epoch), LEASE_S)
            sweep = self.store.get_sweep(sweep_id)
            if not self._ended_without_a_runner(sweep):
                self._start_or_wait(sweep)

    def _is_held(self, fence: Fence, began: float) -> bool:
        """True if a runner holds its sweep; the worker does that for one that has just begun."""
        held = True
        try:
            if time.monotonic() - began >= STARTS_S:
                held = self.store.has_lease(fence)
            else:
                self.store.renew_lease(fence, LEASE_S)
        except StaleEpoch:
            held = False
        self._answered_at = time.monotonic()
        return held

    def _after(self, runner: _Runner) -> None:
        """Handle the end of a runner. Its lease is ours until we release it."""
        stop(runner.process, 0)  # closes its lifeline, and ends what may be left of it
        code, sweep = runner.process.returncode, self.store.get_sweep(runner.sweep.id)
        if sweep.epoch != runner.sweep.epoch:
            return
        if code in (0, GAVE_WAY_EXIT_CODE) or not sweep.state.needs_runner:
            self._failures.pop(sweep.id, None)
            self.store.release_lease(runner.fence)
            return
        if progress_of(self.store, sweep.id) > runner.progress:
            self._failures.pop(sweep.id, None)
            self._ray.forget()
        if code == NO_RAY_EXIT_CODE:
            self.store.renew_lease(runner.fence, LEASE_S)
            self._ray.begin()
            self._start_or_wait(sweep)
            return
        failures, since = self._failures.get(sweep.id, (0, time.monotonic()))
        failures += 1
        self._failures[sweep.id] = failures, since
        end = "because it hung and was killed" if runner.hangs else end_in_words(code)
        log.warning("the runner of %s ended %s; failures in a row: %d", sweep.id, end, failures)
        if failures >= MAX_FAILURES and time.monotonic() - since >= PATIENCE_S:
            message = f"its runner failed {failures} times in a row without progress, the last {end}"
            message += f": {log_tail(runner.log)}"
            del self._failures[sweep.id]
            recover(self.store, runner.fence, self.store.get_sweep(sweep.id))
            remove_unneeded(self.store.list_attempts(sweep.id))
            self.store.set_sweep_state(runner.fence, SweepState.FAILED, message)
        elif failures > 1:
            pause_s = min(LONGEST_BACKOFF_S, 2.0**failures)
            self.store.renew_lease(runner.fence, pause_s)  # claimed again after that
        else:
            self.store.release_lease(runner.fence)


def progress_of(store: Store, sweep_id: str) -> int:
    """Return a number that rises as a sweep progresses: updates recorded, benchmarks measured, and work that ended."""
    works = [*store.list_trials(sweep_id), *store.list_evaluations(sweep_id)]
    return sum(work.step + work.state.is_over for work in works)


def run_worker(settings: Settings) -> None:
    """Run a worker until SIGTERM or SIGINT.

    Raises: AnotherWorker, if there may be only one.
    """
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    lock = sole_worker(settings.database_url)
    stopped = threading.Event()
    hear_stop_signals(lambda _: stopped.set())
    tracker = MlflowApi(settings.mlflow_url, sign_in(settings), certificates()) if settings.mlflow_url else None
    store = open_store(settings.database_url)
    keep_imports()
    project = Projector(store, tracker).run if tracker else threading.Event.is_set
    projection = threading.Thread(target=project, args=(stopped,), name="mlflow-projection", daemon=True)
    projection.start()
    deleter = threading.Thread(target=Deleter(store, settings).run, args=(stopped,), name="deletions", daemon=True)
    deleter.start()
    try:
        Worker(store, settings).run(stopped)
    finally:
        stopped.set()
        projection.join(LAST_PASSES_S)
        deleter.join(_STOP_GRACE_S)  # what is left of a deletion goes on after the next start
        store.close()
        if lock is not None:
            lock.close()


if __name__ == "__main__":
    run_worker(Settings())
