"""Counts of right answers by trial, validation problem and evaluation."""

from collections.abc import Iterator, Mapping
from typing import Any

from sqlalchemy import Connection, and_, func, select

from sweep_service.store import tables as t
from sweep_service.store.base import Rows
from sweep_service.sweep.records import ProblemCounts


def store_problem_names(connection: Connection, sweep_id: str, event: Mapping[str, Any]) -> None:
    """Store the problems' names that a trainer has announced, unless the sweep has them already."""
    c, digest = t.problem_sets.c, event["digest"]
    if not connection.execute(select(c.digest).where(c.sweep_id == sweep_id, c.digest == digest)).first():
        row = {"sweep_id": sweep_id, "digest": digest, "names": event["names"]}
        connection.execute(t.problem_sets.insert().values(row))


def store_problem_counts(connection: Connection, trial_id: str, step: int, counts: Mapping[str, Any]) -> None:
    """Store the counts of one evaluation; of a step that comes again the later counts stand.

    An evaluation whose judge failed on every sample has no counts, as it has no score.
    """
    c, judged = t.problem_counts.c, counts["judged"]
    connection.execute(t.problem_counts.delete().where(and_(c.trial_id == trial_id, c.step == step)))
    if any(judged) if isinstance(judged, list) else judged:
        row = {"digest": counts["digest"], "judged": judged, "right": counts["right"]}
        connection.execute(t.problem_counts.insert().values(trial_id=trial_id, step=step, **row))


class ProblemRows(Rows):
    """Counts of judged and right samples."""

    def problem_counts(self, sweep_id: str, last: int) -> Iterator[ProblemCounts]:
        """Yield the counts of the last evaluations of each trial, by trial number and step.

        Args:
            last: number of evaluations of each trial.
        Raises: NotFound.
        """
        c, s = t.problem_counts.c, t.problem_sets.c
        newest_first = func.row_number().over(partition_by=c.trial_id, order_by=c.step.desc())
        ranked = select(t.problem_counts, t.trials.c.number, newest_first.label("place"))
        rows = ranked.join_from(t.problem_counts, t.trials).where(t.trials.c.sweep_id == sweep_id).subquery()
        query = select(rows).where(rows.c.place <= last).order_by(rows.c.number, rows.c.step)
        with self._read(sweep_id) as connection:
            sets = connection.execute(select(s.digest, s.names).where(s.sweep_id == sweep_id))
            names = {row.digest: tuple(row.names) for row in sets}
            counts = connection.execute(query).all()
        for row in counts:
            judged = row.judged if isinstance(row.judged, list) else [row.judged] * len(row.right)
            yield ProblemCounts(
                trial_id=row.trial_id,
                step=row.step,
                names=names[row.digest],
                judged=tuple(judged),
                right=tuple(row.right),
            )
