"""Sweeps that people watch. Each is kept in memory; only what is new is read from the store, once for all viewers.

A viewer fetches the whole page again and again, and all curves when the page announces new ones. So a lost answer or a
restarted server leaves no gap and duplicates nothing.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from pydantic_core import to_json

from sweep_service.pages.page_curves import MeanCurves, thinning
from sweep_service.pages.rendering import render
from sweep_service.pages.snapshot import ENTROPY, REWARD, SHOWN_EVALUATIONS, Snapshot, take
from sweep_service.schemas import Judged
from sweep_service.service import SweepService
from sweep_service.store.curve_rows import NewPoints
from sweep_service.sweep.deletion import DeletionState
from sweep_service.sweep.labels import Phases
from sweep_service.sweep.objective import objective_metrics
from sweep_service.sweep.records import Config, Event, Sweep, Trial, TrialState
from sweep_service.verbs import VERBS, Shown

READ_EVERY_S: Final = 0.5
"""Seconds for which a rendered page is handed out again, so that many viewers cost no more than one."""
KEPT_SWEEPS: Final = 8
_EVENTS: Final = 1000
_NEW_CONFIGS: Final = ("config.added", "trials.added")
"""Types of the events after which there are new configs, or new roles of them."""
_PHASES: Final = ("trial.progress", "probe.started", "probe.progress", "probe.finished", "probe.reused")
_FOLLOWED: Final = (*_PHASES, *_NEW_CONFIGS, "trial.evaluated")
"""Types of the events that change the page by more than the rows do."""
_CHUNKS: Final = 8000
"""Number of curve parts read at once."""
_EVENTS_BACK: Final = 200
"""Number of events before the first reading that are read, to tell phases of trials and the newest evaluations."""
_SOON_S, _WAITING_S, _REPORT_WITHIN_S = 2.0, 5.0, 600.0


class LiveSweep:
    """One sweep, followed for as long as somebody watches it. Safe to use from several threads."""

    def __init__(self, service: SweepService, sweep_id: str) -> None:
        self._service, self._store, self._id = service, service.store, sweep_id
        self._lock = threading.Lock()
        sweep = service.store.get_sweep(sweep_id)
        self._configs: list[Config] = self._store.list_configs(sweep_id)
        self._trials: dict[str, Trial] = {}
        self._begin(sweep)
        self._deletion: DeletionState | None = None
        self._seq = max(0, self._store.last_event(sweep_id) - _EVENTS_BACK)
        self._phases = Phases()
        self._evaluated: list[tuple[str, int]] = []
        self._report = ((None, sweep.state.is_over), service.judged(sweep_id))
        self._reports = service.reports(sweep_id)
        self._page, self._rendered_at = "", -READ_EVERY_S

    def _begin(self, sweep: Sweep) -> None:
        """Follow the sweep as it is planned now, from its first point on."""
        self._generation = sweep.generation
        steps = [config.training["steps"] for config in self._configs]
        self._steps = max(steps) if steps else sweep.spec.trained_base.steps
        self._charts = (ENTROPY, REWARD, sweep.spec.objective.metric)
        self._keys = tuple(dict.fromkeys([*self._charts, *objective_metrics(sweep.spec)]))
        width = thinning(
            self._steps, max(len(self._configs), self._service.planned(sweep).tune // len(sweep.spec.seeds.tune))
        )
        self._latest, self._seen_chunk = MeanCurves(width), 0
        self._curves, self._chunk = MeanCurves(width), 0
        self._drawn = (-1, b"")

    def page(self) -> str:
        """Return the page as it is now, with the number of the newest part of its curves.

        It tells last values and evaluations, and so reads no whole curves.
        """
        with self._lock:
            if time.monotonic() - self._rendered_at >= READ_EVERY_S:
                snapshot = self._read()
                shown = Shown(
                    sweep=snapshot.sweep,
                    failed_trials=snapshot.counts.get(TrialState.FAILED, 0),
                    report_stands=snapshot.judged.is_final and not self._reports.building,
                    deletion=self._deletion,
                )
                self._page = render(
                    "sweep",
                    snapshot=snapshot,
                    again=self._again(snapshot),
                    chunk=self._seen_chunk,
                    steps=self._steps,
                    deletion=self._deletion,
                    reports=self._reports,
                    offered=[verb for verb in VERBS.values() if verb.button and verb.button.offered(shown)],
                )
                self._rendered_at = time.monotonic()
            return self._page

    def look_again(self) -> None:
        """Make the next page anew: somebody has just asked for a change, and wants to see it."""
        with self._lock:
            self._rendered_at = float("-inf")

    def curves(self) -> bytes:
        """Return all curves as JSON."""
        with self._lock:
            while chunks := self._store.new_points(self._id, self._keys, self._chunk, _CHUNKS):
                self._chunk = self._add(chunks, self._curves)
            if self._drawn[0] != self._chunk:
                lines = [
                    {"config": config_id, "stage": stage, "key": key, **points._asdict()}
                    for (config_id, stage, key), points in self._curves.lines(self._charts).items()
                ]
                self._drawn = self._chunk, to_json({"chunk": self._chunk, "lines": lines})
            return self._drawn[1]

    def _again(self, snapshot: Snapshot) -> float | None:
        """Return the seconds after which a viewer should ask again; None if nothing more will come."""
        sweep = snapshot.sweep
        if snapshot.counts.get(TrialState.RUNNING):
            return _SOON_S
        waits = self._report[0][0] is None and snapshot.now - (sweep.ended_at or 0) < _REPORT_WITHIN_S
        return _WAITING_S if waits or self._reports.building or not sweep.state.is_over else None

    def _read(self) -> Snapshot:
        """Read what is new from the store."""
        sweep = self._store.get_sweep(self._id)
        if sweep.generation != self._generation:  # it was given more, perhaps a stage with an objective of its own
            self._begin(sweep)
        while events := self._store.list_events(self._id, self._seq, _EVENTS, _FOLLOWED):
            for event in events:
                self._take_event(event)
            self._seq = events[-1].seq
        before, deletion = self._deletion, self._store.deletions([self._id]).get(self._id)
        self._deletion = deletion and deletion.state
        if self._deletion is DeletionState.ARCHIVED and before is not self._deletion:  # what was read before is gone
            self._begin(sweep)
        self._read_latest_and_trials()
        self._reports = self._service.reports(sweep.id)
        return take(
            self._service,
            sweep,
            [*self._trials.values()],
            self._configs,
            self._latest,
            self._phases,
            self._judged(sweep),
            self._store.samples_at(self._evaluated),
            deletion,
        )

    def _read_latest_and_trials(self) -> None:
        """Read the page's share of the curves: at first the last steps and all evaluations, then all that is new.

        The trials are read after the first of it, so that they know of it.
        """
        first = [] if self._seen_chunk else self._store.last_points(self._id, self._keys)
        chunks = first or self._store.new_points(self._id, self._keys, self._seen_chunk, _CHUNKS)
        self._read_trials()
        while chunks:
            self._seen_chunk = self._add(chunks, self._latest)
            chunks = self._store.new_points(self._id, self._keys, self._seen_chunk, _CHUNKS)
        for key in (ENTROPY, REWARD) if first else ():  # a trial's last steps may lack what earlier ones have
            lacking = [id_ for id_, trial in self._trials.items() if self._latest.latest(trial, key) is None]
            for curve in self._store.curves(self._id, [key], lacking):
                self._latest.add(self._trials[curve.trial_id], curve.steps, {key: curve.values})

    def _add(self, chunks: Sequence[NewPoints], curves: MeanCurves) -> int:
        """Add at least one part to curves; return the number of the last one."""
        if not {chunk.trial_id for chunk in chunks} <= self._trials.keys():
            self._read_trials()
        for chunk in chunks:
            curves.add(self._trials[chunk.trial_id], chunk.steps, chunk.metrics)
        return chunks[-1].id

    def _read_trials(self) -> None:
        self._trials = {trial.id: trial for trial in self._store.list_trials(self._id)}
        if not {trial.config_id for trial in self._trials.values()} <= {config.id for config in self._configs}:
            self._configs = self._store.list_configs(self._id)

    def _take_event(self, event: Event) -> None:
        self._phases.take(event)
        if event.type == "trial.evaluated":
            trial_id, step = event.data["trial_id"], event.data["step"]
            others = [evaluation for evaluation in self._evaluated if evaluation[0] != trial_id]
            self._evaluated = [(trial_id, step), *others][:SHOWN_EVALUATIONS]
        elif event.type in _NEW_CONFIGS:
            self._configs = []

    def _judged(self, sweep: Sweep) -> Judged:
        """Return what the final report says; while there is none, why."""
        basis = self._store.report_digest(sweep.id), sweep.state.is_over
        if basis[0] is None or basis != self._report[0]:
            self._report = (basis, self._service.judged(sweep.id))
        return self._report[1]


class LiveSweeps:
    """The sweeps that were watched last."""

    def __init__(self, service: SweepService) -> None:
        self._service = service
        self._watched: OrderedDict[str, LiveSweep] = OrderedDict()
        self._lock = threading.Lock()

    def look_again(self, sweep_id: str) -> None:
        """Make a sweep's next page anew."""
        if (live := self._watched.get(sweep_id)) is not None:
            live.look_again()

    def get(self, sweep_id: str) -> LiveSweep:
        """Return a sweep to watch.

        Raises: NotFound.
        """
        with self._lock:
            if sweep_id not in self._watched:
                self._watched[sweep_id] = LiveSweep(self._service, sweep_id)
                while len(self._watched) > KEPT_SWEEPS:
                    self._watched.popitem(last=False)
            self._watched.move_to_end(sweep_id)
            return self._watched[sweep_id]
