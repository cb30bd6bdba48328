"""What a sweep has taken of its budget."""

from sqlalchemy import func, select

from sweep_service.store import tables as t
from sweep_service.store.base import Rows
from sweep_service.sweep.budget import Spent, TrialTime
from sweep_service.sweep.records import TrialState


class SpendingRows(Rows):
    """Hours held, over all trials."""

    def spent(self, sweep_id: str) -> Spent:
        """Return what a sweep's trials have taken so far, those that have begun, and its probe."""
        c = t.trials.c
        query = select(c.state, c.held_s).where(c.sweep_id == sweep_id, c.attempts > 0)
        with self._read() as connection:
            begun = [TrialTime(TrialState(state), held_s) for state, held_s in connection.execute(query)]
            p = t.probes.c
            held = select(func.sum(p.held_s * p.gpus)).where(p.sweep_id == sweep_id)
            probed_s = connection.execute(held).scalar_one() or 0.0
        return Spent(begun, probed_s / 3600)
