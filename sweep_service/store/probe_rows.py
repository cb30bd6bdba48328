"""Cost probes of sweeps: measurements before the first trial."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import func, select

from sweep_service.store import tables as t
from sweep_service.store.base import Fence, Rows, append_event, change, insert_records
from sweep_service.sweep.records import CostProbe, ProbeState
from trainers.cost.cost_figures import CostFigures


class ProbeRows(Rows):
    """The cost probes. A sweep has several if its runner was replaced during a probe, or if one crashed."""

    def start_probe(
        self, fence: Fence, shape: str, machines: str, training: Mapping[str, Any], gpus: float
    ) -> CostProbe:
        """Begin a probe."""
        p = t.probes.c
        with self._fenced(fence) as connection:
            last = connection.execute(select(func.max(p.number)).where(p.sweep_id == fence.sweep_id)).scalar_one()
            probe = CostProbe(
                sweep_id=fence.sweep_id,
                number=(last or 0) + 1,
                shape=shape,
                machines=machines,
                state=ProbeState.RUNNING,
                training=dict(training),
                gpus=gpus,
                started_at=time.time(),
            )
            insert_records(connection, t.probes, [probe])
            append_event(connection, fence.sweep_id, "probe.started", {"number": probe.number})
        return probe

    def lose_probe(self, fence: Fence, more_held_s: float) -> None:
        """End the probe that an earlier runner left, if there is one.

        Args:
            more_held_s: seconds for which it held its resources beyond what `mark_probe` has noted.
        """
        probe = self.last_probe(fence.sweep_id)
        if probe is not None and probe.state is ProbeState.RUNNING:
            held_s = probe.held_s + more_held_s
            self.finish_probe(fence, probe, ProbeState.LOST, held_s, message="its runner ended")

    def mark_probe(self, fence: Fence, probe: CostProbe, held_s: float, phases: Sequence[str] = ()) -> None:
        """Note the seconds for which a probe has held its resources, and the phases that it has begun since."""
        with self._fenced(fence) as connection:
            change(connection, t.probes, probe, held_s=held_s)
            for phase in phases:
                append_event(connection, fence.sweep_id, "probe.progress", {"number": probe.number, "phase": phase})

    def finish_probe(
        self,
        fence: Fence,
        probe: CostProbe,
        state: ProbeState,
        held_s: float,
        *,
        message: str | None = None,
        figures: CostFigures | None = None,
    ) -> CostProbe:
        """End a probe."""
        changes: dict[str, Any] = {"state": state, "ended_at": time.time(), "held_s": held_s}
        ended = probe.model_copy(update=changes | {"message": message, "figures": figures})
        with self._fenced(fence) as connection:
            change(connection, t.probes, probe, **ended.model_dump(mode="json"))
            data = {"number": probe.number, "state": state, "message": message}
            append_event(connection, fence.sweep_id, "probe.finished", data)
        return ended

    def reuse_probe(self, fence: Fence, probe: CostProbe) -> None:
        """Note that another sweep's probe serves this one, too."""
        with self._fenced(fence) as connection:
            append_event(connection, fence.sweep_id, "probe.reused", {"sweep_id": probe.sweep_id})

    def last_probe(self, sweep_id: str) -> CostProbe | None:
        """Return a sweep's newest probe. Raises: NotFound."""
        query = select(t.probes).where(t.probes.c.sweep_id == sweep_id).order_by(t.probes.c.number.desc()).limit(1)
        return next(iter(self._records(CostProbe, query, sweep_id)), None)

    def find_probe(self, shape: str, machines: str | None = None) -> CostProbe | None:
        """Return the newest probe of a shape that has figures; with `machines`, only one on such machines."""
        p = t.probes.c
        query = select(t.probes).where(p.shape == shape, p.state == ProbeState.SUCCEEDED.value)
        if machines is not None:
            query = query.where(p.machines == machines)
        return next(iter(self._records(CostProbe, query.order_by(p.ended_at.desc()).limit(1))), None)

    def crashed_probes(self, sweep_id: str) -> int:
        """Return the number of a sweep's probes that have crashed."""
        p = t.probes.c
        return self._value(select(func.count()).where(p.sweep_id == sweep_id, p.state == ProbeState.CRASHED.value))
