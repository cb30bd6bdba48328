"""Looks at a running installation twice a second: who trains what, and how soon work gets further after a fault."""

import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from sqlalchemy.exc import SQLAlchemyError

from sweep_service.errors import NotFound
from sweep_service.store import Store, open_store
from sweep_service.sweep.records import DesiredState, Sweep, SweepState, TrialState
from tests.chaos.faults import Strike
from tests.chaos.installation import Installation
from tests.chaos.processes import trainers_at_work

LOOK_EVERY_S: Final = 0.5
ON_ITS_WAY_S: Final = 2.0
"""Seconds after a fault in which the store may still get what was on its way; it counts as no progress."""


@dataclass(frozen=True)
class Work:
    """A trial or an evaluation as the store has it."""

    sweep_id: str
    step: int
    state: TrialState


@dataclass
class Recovery:
    """A fault, and how long it took until work got further than it had been."""

    strike: Strike
    at: float
    """Time of the fault, on the monotonic clock."""
    seconds: float | None = None
    """Seconds until then; None while it has not, or where nothing was left to do."""
    over: bool = False
    before: Mapping[str, Work] = field(default_factory=dict[str, Work])
    """The works of which one must get further, or a new one begin, as they were when the measurement began."""


class Watch:
    """Looks from a thread of its own, until it is stopped."""

    def __init__(self, installation: Installation) -> None:
        self._installation = installation
        self._stopped, self._lock = threading.Event(), threading.Lock()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)
        self._ended: dict[str, tuple[str, int]] = {}
        self.recoveries: list[Recovery] = []
        self.broken: list[str] = []
        """Sights that must not be."""
        self.looks = 0

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """Stop looking."""
        self._stopped.set()
        self._thread.join()

    def expect_progress(self, strike: Strike) -> None:
        """Measure how long it takes from now until work gets further."""
        with self._lock:
            self.recoveries.append(Recovery(strike, time.monotonic()))

    def _run(self) -> None:
        store = open_store(self._installation.settings.database_url)
        while not self._stopped.wait(LOOK_EVERY_S):
            self.looks += 1
            self._look_for_doubles()
            with suppress(SQLAlchemyError, NotFound):  # a full disk; a sweep that is being deleted
                self._look_at_work(store)
        store.close()

    def _look_for_doubles(self) -> None:
        """Note every trial in whose folders two processes work, unless one of them is about to be gone."""
        storage = self._installation.settings.storage
        doubles = {id_: set(pids) for id_, pids in trainers_at_work(storage).items() if len(pids) > 1}
        if not doubles:
            return
        time.sleep(0.1)
        again = trainers_at_work(storage)
        for id_, pids in doubles.items():
            if len(both := pids & set(again.get(id_, []))) > 1:
                self._note(f"{id_}: processes {sorted(both)} work on it at the same time; expected one")

    def _note(self, line: str) -> None:
        if line not in self.broken:
            self.broken.append(line)

    def _look_at_work(self, store: Store) -> None:
        with self._lock:
            waiting = [recovery for recovery in self.recoveries if not recovery.over]
        sweeps = {sweep.id: sweep for sweep in store.list_sweeps(500)}
        works = {
            work.id: Work(sweep.id, work.step, work.state)
            for sweep in sweeps.values()
            if not sweep.state.is_over
            for work in (*store.list_trials(sweep.id), *store.list_evaluations(sweep.id))
        }
        self._look_for_ends_undone(works, sweeps)
        now = time.monotonic()
        for recovery in waiting:
            self._measure(recovery, works, sweeps, now)

    def _look_for_ends_undone(self, works: Mapping[str, Work], sweeps: Mapping[str, Sweep]) -> None:
        """Note every trial that had SUCCEEDED and no longer has."""
        for id_, work in works.items():
            if id_ in self._ended and work.state is not TrialState.SUCCEEDED:
                name = sweeps[work.sweep_id].name
                self._note(f"{id_} of {name} had SUCCEEDED, and is {work.state}; expected that it stays")
            elif work.state is TrialState.SUCCEEDED:
                self._ended[id_] = (work.sweep_id, work.step)

    def _measure(self, recovery: Recovery, works: Mapping[str, Work], sweeps: Mapping[str, Sweep], now: float) -> None:
        """Decide whether work got further, once what was on its way has arrived."""
        strike = recovery.strike
        if now < recovery.at + ON_ITS_WAY_S:
            return
        meant = {id_: work for id_, work in works.items() if _is_meant(strike, id_, work, sweeps)}
        if not recovery.before:
            recovery.before = meant
            recovery.over = all(work.state.is_over for work in meant.values())  # nothing is left to do
            return
        if any(_is_further(recovery.before.get(id_), work) for id_, work in meant.items()) or _is_done(strike, sweeps):
            recovery.seconds, recovery.over = now - recovery.at, True
        elif not meant:
            recovery.over = True  # paused, cancelled or deleted meanwhile


def _is_meant(strike: Strike, id_: str, work: Work, sweeps: Mapping[str, Sweep]) -> bool:
    """Whether a work tells that life goes on: that of the fault's victim, if it worked for one alone."""
    if strike.sweep_id not in (None, work.sweep_id) or strike.work_id not in (None, id_):
        return False
    return sweeps[work.sweep_id].desired_state is DesiredState.RUN


def _is_further(before: Work | None, work: Work) -> bool:
    return work.step > (before.step if before else 0) or (
        work.state.is_over and before is not None and not before.state.is_over
    )


def _is_done(strike: Strike, sweeps: Mapping[str, Sweep]) -> bool:
    """Whether the sweep of the fault's victim has SUCCEEDED meanwhile, so that its works are no longer looked at."""
    sweep = sweeps.get(strike.sweep_id or "")
    return sweep is not None and sweep.state is SweepState.SUCCEEDED
