"""Sweeps that people watch: read once for all viewers, and told to each as what has changed since their last answer.

A viewer holds a cursor: the name of the reading it follows and the number of its last change. A name that is not
known any more (this process was restarted, or another one answers) gets everything, which replaces what the viewer
has. So no answer that was lost leaves a gap, and none that is repeated doubles a point.
"""

import secrets
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from sweep_service.errors import NotReady
from sweep_service.pages.page_curves import CurvePoint, Line, MeanCurves, thinning
from sweep_service.pages.rendering import render
from sweep_service.pages.snapshot import (
    ENTROPY,
    REWARD,
    SHOWN_EVALUATIONS,
    PageTrial,
    Planned,
    ShownVerdict,
    Snapshot,
    evaluations,
    read_verdict,
    take,
)
from sweep_service.service import SweepService
from sweep_service.sweep.labels import probe_phase
from sweep_service.sweep.plan import make_plan
from sweep_service.sweep.records import Config, Event, Sweep

READ_EVERY_S: Final = 0.5
"""More viewers ask no more of the store than one."""
KEPT_SWEEPS: Final = 8
PARTS: Final = ("name", "state", "verdict", "warnings", "samples")
_EVENTS: Final = 1000
_FIRST_POINTS, _MORE_POINTS = 1000, 8000
"""Parts of curves read at once: few for the first look at a large sweep, more for the rest of it."""
_EVENTS_BACK: Final = 500
"""Events before the first reading that are looked at: what trials do, and which evaluations are the newest."""
_SOON_S, _WAITING_S, _REPORT_WITHIN_S = 2.0, 5.0, 600.0

Value = TypeVar("Value")


@dataclass(frozen=True)
class Change(Generic[Value]):
    """A value and the number of the change that made it."""

    number: int
    value: Value


class LiveSweep:
    """One sweep, followed for as long as somebody watches it. Safe to use from several threads."""

    def __init__(self, service: SweepService, sweep_id: str) -> None:
        self.service, self.id = service, sweep_id
        self.name = secrets.token_hex(4)
        self._lock = threading.Lock()
        self._read_at = -READ_EVERY_S
        self._number = 0
        sweep = service.get(sweep_id)
        plan = None if sweep.state.is_over else make_plan(sweep.spec, None)
        self._planned: Planned = plan.trials if plan else {}
        self._configs: list[Config] = service.store.list_configs(sweep_id)
        steps = max(config.training["steps"] for config in self._configs) if self._configs else sweep.spec.base.steps
        configs = max(len(self._configs), plan.configs if plan else 0)
        self.keys: tuple[str, str, str] = (ENTROPY, REWARD, sweep.spec.objective.metric)
        self.steps = steps
        self._curves = MeanCurves(thinning(steps, configs))
        self._seq = max(0, service.store.last_event(sweep_id) - _EVENTS_BACK)
        self._chunk, self._behind = 0, False
        self._phases: dict[str, str] = {}
        self._probing: str | None = None
        self._evaluated: list[tuple[str, int]] = []
        self._report: tuple[str | None, ShownVerdict | None] = (None, None)
        self._snapshot: Snapshot | None = None
        self._parts: dict[str, Change[str]] = {}
        self._looks: dict[str, Change[tuple[str, str]]] = {}
        self._rows: dict[str, Change[tuple[str, float, str]]] = {}
        self._rendered: dict[str, PageTrial] = {}
        self._lines: dict[Line, dict[int, Change[CurvePoint]]] = {}

    def page(self) -> str:
        """Return the whole page, as it is at this moment; its curves come later."""
        with self._lock:
            snapshot = self._read()
            return render(
                "sweep",
                snapshot=snapshot,
                parts={name: change.value for name, change in self._parts.items()},
                rows={trial_id: change.value[2] for trial_id, change in self._rows.items()},
                seq=self._seq,
                steps=self.steps,
                keys=self.keys,
            )

    def since(self, cursor: str) -> dict[str, Any]:
        """Return what has changed after the cursor; everything, if it is not one of this reading."""
        with self._lock:
            if time.monotonic() - self._read_at >= READ_EVERY_S or self._behind or self._snapshot is None:
                self._read()
            assert self._snapshot is not None
            after = self._after(cursor)
            sweep = self._snapshot.sweep
            return {
                "cursor": f"{self.name}.{self._number}",
                "full": after == 0,
                "next_s": self._next_s(self._snapshot),
                "state": sweep.state,
                "cancelling": self._snapshot.cancelling,
                "share": self._snapshot.progress.share,
                "parts": {name: change.value for name, change in self._parts.items() if change.number > after},
                "rows": [(trial_id, *change.value) for trial_id, change in self._rows.items() if change.number > after],
                "configs": [
                    (config_id, *change.value) for config_id, change in self._looks.items() if change.number > after
                ],
                "lines": [
                    (*line, new)
                    for line, points in self._lines.items()
                    if (new := [(group, *p.value) for group, p in points.items() if p.number > after])
                ],
            }

    def _after(self, cursor: str) -> int:
        name, _, number = cursor.partition(".")
        return int(number) if name == self.name and number.isdecimal() and len(number) < 12 else 0

    def _next_s(self, snapshot: Snapshot) -> float | None:
        """Seconds after which a viewer should ask again though no event came; None: nothing more will come."""
        sweep = snapshot.sweep
        if self._behind:
            return 0.0
        if not sweep.state.is_over:
            return _SOON_S if snapshot.counts.get("RUNNING") else _WAITING_S
        waits = self._report[0] is None and snapshot.now - (sweep.ended_at or 0) < _REPORT_WITHIN_S
        return _WAITING_S if waits else None

    def _read(self) -> Snapshot:
        """Take from the store what is new. The trials are read last: they are as new as what was read before them."""
        store = self.service.store
        sweep = store.get_sweep(self.id)
        self._take_events()
        limit = _MORE_POINTS if self._chunk else _FIRST_POINTS
        chunks = store.new_points(self.id, self.keys, self._chunk, limit)
        trials = store.list_trials(self.id)
        by_id = {trial.id: trial for trial in trials}
        for chunk in chunks:
            self._curves.add(by_id[chunk.trial_id], chunk.steps, chunk.metrics)
            self._chunk = chunk.id
        self._behind = len(chunks) == limit
        if not {trial.config_id for trial in trials} <= {config.id for config in self._configs}:
            self._configs = store.list_configs(self.id)
        verdict = self._verdict(sweep)
        snapshot = take(
            *(self.service, sweep, trials, self._configs, self._curves, self._phases, self._planned, verdict),
            probing=self._probing,
        )
        self._number += 1
        self._note(snapshot)
        self._read_at, self._snapshot = time.monotonic(), snapshot
        return snapshot

    def _take_events(self) -> None:
        while events := self.service.events(self.id, self._seq, _EVENTS):
            for event in events:
                self._take_event(event)
            self._seq = events[-1].seq

    def _take_event(self, event: Event) -> None:
        data = event.data
        if event.type == "trial.progress":
            done = f" {data['done']}/{data['total']}" if data["total"] > 1 else ""
            self._phases[data["trial_id"]] = f"{data['phase']}{done}"
        elif event.type == "trial.evaluated":
            others = [evaluation for evaluation in self._evaluated if evaluation[0] != data["trial_id"]]
            self._evaluated = [(data["trial_id"], data["step"]), *others][:SHOWN_EVALUATIONS]
        elif event.type.startswith("probe."):
            self._probing = probe_phase(event)
        elif event.type in ("config.added", "trials.added"):
            self._configs = []  # there are more, or they have more roles

    def _verdict(self, sweep: Sweep) -> ShownVerdict | None:
        digest = self.service.store.report_digest(sweep.id)
        if digest != self._report[0]:
            try:
                self._report = (digest, read_verdict(self.service.report(sweep.id, "json").content))
            except NotReady:  # replaced at this very moment
                self._report = (None, None)
        return self._report[1]

    def _note(self, snapshot: Snapshot) -> None:
        """Number what differs from the last reading."""
        samples = evaluations(snapshot.rows, self.service.store.samples_at(self._evaluated))
        for name in PARTS:
            self._set(self._parts, name, render(f"part_{name}", snapshot=snapshot, evaluations=samples))
        for config_id, look in snapshot.looks.items():
            self._set(self._looks, config_id, (look.label, look.style))
        for row in snapshot.rows:
            if self._rendered.get(row.trial.id) != row:
                self._rendered[row.trial.id] = row
                self._set(self._rows, row.trial.id, (row.group, row.order, render("trial", row=row)))
        for line, points in self._curves.changed():
            known = self._lines.setdefault(line, {})
            for group, point in points.items():
                self._set(known, group, point)

    def _set(self, changes: dict[Any, Change[Any]], key: Any, value: Any) -> None:
        if key not in changes or changes[key].value != value:
            changes[key] = Change(self._number, value)


class LiveSweeps:
    """The sweeps that were watched last."""

    def __init__(self, service: SweepService) -> None:
        self._service = service
        self._kept: OrderedDict[str, LiveSweep] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, sweep_id: str) -> LiveSweep:
        """Return a sweep to watch.

        Raises: NotFound.
        """
        with self._lock:
            if sweep_id not in self._kept:
                self._kept[sweep_id] = LiveSweep(self._service, sweep_id)
                while len(self._kept) > KEPT_SWEEPS:
                    self._kept.popitem(last=False)
            self._kept.move_to_end(sweep_id)
            return self._kept[sweep_id]
