"""Reads the newest points, samples and events, for people who watch a sweep."""

from collections.abc import Sequence

from pydantic_core import from_json
from sqlalchemy import Text, and_, cast, func, or_, select

from sweep_service.store import tables as t
from sweep_service.store.base import Rows
from sweep_service.sweep.records import Record, Sample


class NewPoints(Record):
    """Some steps of one trial: `metrics[key][i]` was recorded at `steps[i]`, for the requested metrics only."""

    id: int
    """Number of this part; parts of a sweep that are committed later have higher ones."""
    trial_id: str
    steps: list[int]
    metrics: dict[str, list[float | None]]


class LiveRows(Rows):
    """The newest points, samples and events."""

    def new_points(self, sweep_id: str, keys: Sequence[str], after: int, limit: int) -> list[NewPoints]:
        """Return what a sweep's trials recorded after the part with the id `after`, in the order in which it came.

        A step may come again, from a later attempt: then the later value stands.
        """
        c = t.curves.c
        joined = t.curves.join(t.trials, c.trial_id == t.trials.c.id)
        lite = self.engine.dialect.name == "sqlite"  # SQLite extracts metrics from long texts faster than Python
        paths = ("$.steps", *(f'$.metrics."{key}"' for key in keys))
        points_text = func.json_extract(c.points, *paths) if lite else cast(c.points, Text)
        query = select(c.id, c.trial_id, points_text.label("points")).select_from(joined)
        query = query.where(t.trials.c.sweep_id == sweep_id, c.id > after).order_by(c.id).limit(limit)
        with self._read() as connection:
            rows = connection.execute(query).all()
        parts: list[NewPoints] = []
        for row in rows:
            points = from_json(row.points)  # much faster than the column type's parser
            steps, *values = points if lite else (points["steps"], *(points["metrics"].get(key) for key in keys))
            metrics = {key: value for key, value in zip(keys, values, strict=True) if value is not None}
            parts.append(NewPoints(id=row.id, trial_id=row.trial_id, steps=steps, metrics=metrics))
        return parts

    def samples_at(self, evaluations: Sequence[tuple[str, int]]) -> list[Sample]:
        """Return the completions written at these evaluations, each a trial's id and a step, in their order."""
        s = t.samples.c
        named = [and_(s.trial_id == trial_id, s.step == step) for trial_id, step in evaluations]
        with self._read() as connection:
            rows = connection.execute(select(t.samples).where(or_(False, *named))).mappings().all()
        by_evaluation = {(row["trial_id"], row["step"]): row["samples"] for row in rows}
        return [
            Sample(trial_id=trial_id, step=step, **sample)
            for trial_id, step in evaluations
            for sample in by_evaluation.get((trial_id, step), ())
        ]

    def last_event(self, sweep_id: str) -> int:
        """Return the number of a sweep's last event."""
        query = select(func.max(t.events.c.seq)).where(t.events.c.sweep_id == sweep_id)
        with self._read() as connection:
            return connection.execute(query).scalar_one() or 0
