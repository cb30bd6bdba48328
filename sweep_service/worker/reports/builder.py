"""The worker's reports: each is built in a child process, one at a time, while the worker goes on with its sweeps."""

import json
import logging
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from sweep_service.errors import StaleEpoch
from sweep_service.processes.child_processes import end_in_words, kill, stop, this_host
from sweep_service.runner.lease import LEASE_S, RENEW_EVERY_S
from sweep_service.settings import Settings
from sweep_service.store import Fence, Store
from sweep_service.sweep.records import Sweep, SweepState, Trial, TrialState

LONGEST_S: Final = 600.0
"""Seconds after which building a report is given up."""
INTERIM_PAUSE_S: Final = 15.0
"""Least pause, in seconds, between two interim reports of a sweep; it is twice what the last one took if longer."""
TROUBLE_PAUSE_S: Final = 5.0
"""Pause, in seconds, after a report that could not be built because the database was away or no process began."""
FINAL_WAITS_S: Final = 10.0
"""Seconds for which a final report waits for another; most are done by then, and a new child takes seconds to start."""
IDLE_S: Final = 30.0
"""Seconds without a request after which the child is ended, for its memory."""
MOST: Final = 50
"""Number of reports that one child builds, so that nothing they leave in its memory adds up."""

log = logging.getLogger(__name__)


class Kind(Enum):
    """Occasions on which a report is built."""

    FINAL = "final"  # of a sweep whose trials are done; the sweep ends with it
    LATE = "late"  # of a sweep that failed or was cancelled: its results are worth reading too
    INTERIM = "interim"  # of a running sweep, for somebody who has asked


@dataclass
class _Build:
    sweep_id: str
    kind: Kind
    fence: Fence | None
    """The right to end the sweep with its final report."""
    began: float = field(default_factory=time.monotonic)
    renewed: float = field(default_factory=time.monotonic)
    ended: str | None = None
    """Why the worker has ended the child before it was done."""
    wrong: bool = False
    """True if the report is to blame for that."""


class ReportChild:
    """A process that builds one report after another, each when it is asked; nothing waits for it.

    Raises: OSError, if it cannot be started.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self.num_requests = 0
        """Number of reports that it was asked for so far."""
        self._received = b""
        self.process = subprocess.Popen(
            command, env=dict(environment), stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._requests, self._answers = self.process.stdin, self.process.stdout
        os.set_blocking(self._answers.fileno(), False)

    def ask(self, sweep_id: str, *, interim: bool, patient: bool) -> None:
        """Ask for a report. The request fits into the pipe; a child that has died is seen to have ended."""
        self.num_requests += 1
        request = {"sweep_id": sweep_id, "interim": interim, "patient": patient}
        with suppress(BrokenPipeError):
            os.write(self._requests.fileno(), json.dumps(request).encode() + b"\n")

    def answer(self) -> Mapping[str, Any] | None:
        """Return the answer to the last request, once it is there; also that of a child that ended without one."""
        ended = self.process.poll() is not None  # what it wrote before is there by now
        with suppress(BlockingIOError):
            while chunk := os.read(self._answers.fileno(), 1 << 16):
                self._received += chunk
        line, newline, self._received = self._received.partition(b"\n")
        if newline:
            return json.loads(line)
        self._received = line
        return {"failure": f"its process ended {end_in_words(self.process.returncode)}"} if ended else None

    def kill(self) -> None:
        """End the process; `gone` tells when it has."""
        kill(self.process)

    @property
    def gone(self) -> bool:
        """True if the process has ended; nothing of it is left then."""
        if self.process.poll() is None:
            return False
        self._close()
        return True

    def stop(self) -> None:
        """End the process, and wait for its end."""
        stop(self.process, 0)
        self._close()

    def _close(self) -> None:
        self._requests.close()
        self._answers.close()


@dataclass
class ReportBuilder:
    """Builds one report after another for a worker, in whose main thread every method runs; none of them waits.

    Final reports go first, and take the place of another that takes long. Those of ended sweeps and interim ones take
    turns.
    """

    store: Store
    settings: Settings
    command: Sequence[str] = (sys.executable, "-m", "sweep_service.worker.reports.process")
    _child: ReportChild | None = None
    _leaving: list[ReportChild] = field(default_factory=list[ReportChild])
    """Children that have been told to end."""
    _build: _Build | None = None
    _claimed: Sweep | None = None
    """A sweep whose final report is built next."""
    _last: Kind = Kind.INTERIM
    _impossible: set[str] = field(default_factory=set[str])
    """Ended sweeps whose reports could not be built; another worker, perhaps a newer one, tries them again."""
    _not_before: dict[str, float] = field(default_factory=dict[str, float])
    """When the next interim report of a sweep may begin."""
    _paused_until: float = 0.0
    _idle_since: float = 0.0

    @property
    def builds(self) -> bool:
        """True if a report is being built; it may be ready at any moment."""
        return self._build is not None

    def go_on(self) -> None:
        """Look after the report that is being built; once it is done, begin the next one."""
        self._leaving = [child for child in self._leaving if not child.gone]
        if self._build is not None:
            assert self._child is not None
            answer = self._child.answer()
            if answer is None:
                self._judge(self._build)
                if self._build.ended is not None:  # it must not go on
                    self._child.kill()
                return
            build, self._build, self._idle_since = self._build, None, time.monotonic()
            self._conclude(build, answer)
        if time.monotonic() >= self._paused_until:
            self._begin_next()

    def stop(self) -> None:
        """Stop building. What was not built is built after the next start."""
        for child in [*self._leaving, *([self._child] if self._child else [])]:
            child.stop()
        self._child, self._leaving = None, []
        build, self._build = self._build, None
        if build is not None:
            build.ended = "the worker ends"
            self._conclude(build, {})
        if self._claimed is not None:
            self.store.release_lease(Fence(self._claimed.id, self._claimed.epoch))

    def _judge(self, build: _Build) -> None:
        """Decide whether a report may go on: it must not take too long, nor stand in the way of a final one."""
        now = time.monotonic()
        if now - build.began > LONGEST_S:
            build.ended, build.wrong = f"it was not done after {now - build.began:.0f} s", True
        elif build.fence is None and now - build.began > FINAL_WAITS_S:
            self._claimed = self._claimed or self._claim()
            build.ended = "a final report goes first" if self._claimed else build.ended
        elif build.fence is not None and now - build.renewed > RENEW_EVERY_S:
            build.renewed = now
            try:
                self.store.renew_lease(build.fence, LEASE_S)
            except StaleEpoch as error:
                build.ended = str(error)

    def _begin_next(self) -> None:
        sweep, self._claimed = self._claimed or self._claim(), None
        if sweep is not None:
            self._begin(_Build(sweep.id, Kind.FINAL, Fence(sweep.id, sweep.epoch)))
            return
        turns = (Kind.LATE, Kind.INTERIM) if self._last is Kind.INTERIM else (Kind.INTERIM, Kind.LATE)
        for kind in turns:
            if kind is Kind.LATE:
                sweep_id = self.store.next_late(self._impossible)
            else:  # the request for an interim one is taken
                now = time.monotonic()
                self._not_before = {waiting: until for waiting, until in self._not_before.items() if until > now}
                sweep_id = self.store.take_wanted_report(self._not_before)
            if sweep_id is not None:
                self._begin(_Build(sweep_id, kind, None))
                return
        if self._child is not None and time.monotonic() - self._idle_since > IDLE_S:
            self._dismiss()

    def _claim(self) -> Sweep | None:
        return self.store.claim_final_report(f"{this_host()}:{os.getpid()}", LEASE_S)

    def _begin(self, build: _Build) -> None:
        kind = build.kind
        try:
            if self._child is not None and (self._child.gone or self._child.num_requests >= MOST):
                self._dismiss()
            if self._child is None:
                self._child = ReportChild(self.command, {**os.environ, **self.settings.environment()})
        except OSError:
            log.exception("the %s report of %s is put off: no process could be started", kind.value, build.sweep_id)
            self._put_off(build, TROUBLE_PAUSE_S)
            return
        self._child.ask(build.sweep_id, interim=kind is Kind.INTERIM, patient=kind is not Kind.FINAL)
        self._build, self._last = build, kind

    def _dismiss(self) -> None:
        """End the child without waiting for its end."""
        if self._child is not None:
            self._child.kill()
            self._leaving.append(self._child)
            self._child = None

    def _conclude(self, build: _Build, answer: Mapping[str, Any]) -> None:
        """Store the outcome of a report, and of its sweep if it ends with it."""
        took = time.monotonic() - build.began
        if "kept" in answer:
            if build.fence is not None:
                sweep, trials = self.store.get_sweep(build.sweep_id), self.store.list_trials(build.sweep_id)
                self.store.set_sweep_state(build.fence, *_end(sweep, trials))
        elif build.ended is not None and not build.wrong:
            log.info("the %s report of %s is put off: %s", build.kind.value, build.sweep_id, build.ended)
            self._put_off(build, 0)
            return
        elif "away" in answer:
            reason = answer["away"]
            log.warning("the %s report of %s waits for the database: %s", build.kind.value, build.sweep_id, reason)
            self._put_off(build, TROUBLE_PAUSE_S)
        else:
            reason = build.ended or str(answer["failure"])
            log.warning("no %s report of %s: %s", build.kind.value, build.sweep_id, reason)
            self.store.set_report_failure(build.sweep_id, reason)
            if build.kind is not Kind.INTERIM:
                self._impossible.add(build.sweep_id)
            if build.fence is not None:
                message = f"the trials are done, but the report could not be built: {reason}"
                self.store.set_sweep_state(build.fence, SweepState.FAILED, message)
        if build.kind is Kind.INTERIM:
            self._not_before[build.sweep_id] = time.monotonic() + max(INTERIM_PAUSE_S, 2 * took)

    def _put_off(self, build: _Build, pause_s: float) -> None:
        """Leave a report to be built later, because of trouble that is not its own."""
        self._paused_until = time.monotonic() + pause_s
        if build.fence is not None:
            self.store.release_lease(build.fence)
        elif build.kind is Kind.INTERIM:
            self.store.want_report(build.sweep_id)


def _end(sweep: Sweep, trials: Sequence[Trial]) -> tuple[SweepState, str | None]:
    """Return the end of a sweep whose trials are done: FAILED if some ran and none of them has a result."""
    if sweep.desired_state.is_to_end and not sweep.has_trained:
        return SweepState.CANCELLED, sweep.message
    failed = [trial for trial in trials if trial.state is TrialState.FAILED]
    if failed and not any(trial.state.has_result for trial in trials):
        return SweepState.FAILED, f"no trial has a result; {len(failed)} failed, the first: {failed[0].message}"
    if failed and not sweep.message:
        message = f"{len(failed)} of {len(trials)} trials failed, the first: {failed[0].message}"
        return SweepState.SUCCEEDED, message
    return SweepState.SUCCEEDED, sweep.message
