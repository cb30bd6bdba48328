"""Deletions of sweeps: the wish, its progress, and the removal of rows, which goes on after a crash in the middle."""

import time
from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Table, func, or_, select, true, update

from sweep_service.errors import Conflict
from sweep_service.store import tables as t
from sweep_service.store.base import Rows, append_event, change, one_sweep
from sweep_service.store.database import writing
from sweep_service.sweep.deletion import Deletion
from sweep_service.sweep.records import SweepState

_MEASURED: Final[tuple[Table, ...]] = (t.curves, t.samples, t.problem_counts, t.checkpoints, t.kept_models)
"""Tables of trials' records, which go even if the report is kept; but the evaluations, which give objectives."""


class DeletionRows(Rows):
    """The part of the store that deletes."""

    def request_deletion(self, sweep_id: str, *, keep_report: bool, by: str | None = None) -> Deletion:
        """Note that the user wants a sweep deleted, or archived. Repeating it changes nothing.

        A sweep that is archived, or being archived, may be deleted; not the other way round.

        Raises: NotFound; Conflict, if it has not ended, or is to be deleted with its report.
        """
        d = t.deletions.c
        with writing(self.engine) as connection:
            earlier = _deletion(connection, d.sweep_id == sweep_id)
            if earlier is not None and not earlier.keep_report:
                if keep_report and earlier.rows_done_at is None:
                    raise Conflict(f"sweep {sweep_id} is being deleted with its report; it cannot be archived any more")
                return earlier
            if earlier is not None and keep_report:
                return earlier
            row = one_sweep(connection, sweep_id, lock=earlier is None)  # nobody may give it more to do meanwhile
            state = SweepState(row["state"])
            if not state.is_over:
                raise Conflict(
                    f"sweep {sweep_id} is {state}, and only one that has ended can be deleted; cancel it first: "
                    f"sweeps cancel {sweep_id} --wait"
                )
            wish = {"keep_report": keep_report, "asked_at": time.time(), "by": by, "message": None}
            if earlier is not None:
                change(connection, t.deletions, sweep_id, **wish, files_done_at=None, rows_done_at=None)
            else:
                connection.execute(t.deletions.insert().values(sweep_id=sweep_id, name=row["name"], **wish))
            append_event(connection, sweep_id, "sweep.delete_requested", {"keep_report": keep_report, "by": by})
        return self.deletions([sweep_id])[sweep_id]

    def deletions(self, sweep_ids: Sequence[str]) -> dict[str, Deletion]:
        """Return the deletions of these sweeps by sweep id; a sweep without one is left out."""
        query = select(t.deletions).where(t.deletions.c.sweep_id.in_(sweep_ids))
        return {deletion.sweep_id: deletion for deletion in self._records(Deletion, query)}

    def open_deletions(self) -> list[Deletion]:
        """Return the deletions whose files or rows are not all gone, oldest first."""
        d = t.deletions.c
        return self._records(Deletion, select(t.deletions).where(d.rows_done_at.is_(None)).order_by(d.asked_at))

    def deletions_in_mlflow(self) -> list[Deletion]:
        """Return the deletions whose runs MLflow may still show, oldest first."""
        d = t.deletions.c
        return self._records(Deletion, select(t.deletions).where(d.mlflow_done_at.is_(None)).order_by(d.asked_at))

    def set_mlflow_deleted(self, sweep_id: str) -> None:
        """Note that MLflow shows no run of a sweep any more."""
        self._change(t.deletions, sweep_id, mlflow_done_at=time.time())

    def set_files_deleted(self, sweep_id: str) -> None:
        """Note that a sweep's files are gone."""
        self._change(t.deletions, sweep_id, files_done_at=time.time(), message=None)

    def set_deletion_hindered(self, sweep_id: str, message: str) -> None:
        """Note the reason why a deletion cannot go on."""
        self._change(t.deletions, sweep_id, message=message)

    def count_rows(self, sweep_id: str, *, keep_report: bool = False) -> int:
        """Return the number of rows that go with a sweep: its trials and their records.

        Args:
            keep_report: count only those that go if the sweep is archived.
        """
        trials = select(t.trials.c.id).where(t.trials.c.sweep_id == sweep_id).scalar_subquery()
        which = [_recorded(table, keep_report) & table.c.trial_id.in_(trials) for table in _MEASURED]
        if not keep_report:
            of_sweep = [table.c.sweep_id == sweep_id for table in (t.trials, t.configs, t.judgements, t.events)]
            which = [*which, t.attempts.c.trial_id.in_(trials), *of_sweep]
        with self._read() as connection:
            return sum(connection.execute(select(func.count()).where(one)).scalar_one() for one in which)

    def count_runs(self, sweep_id: str) -> int:
        """Return the number of runs that MLflow shows of a sweep and its trials, as far as they were carried there."""
        s, c = t.sweeps.c, t.trials.c
        with self._read() as connection:
            runs = select(func.count()).where(c.sweep_id == sweep_id, c.mlflow_run_id.is_not(None))
            own = select(func.count()).where(s.id == sweep_id, s.mlflow_run_id.is_not(None))
            return connection.execute(runs).scalar_one() + connection.execute(own).scalar_one()

    def remove_rows(self, deletion: Deletion) -> None:
        """Remove the rows of a sweep that is to be deleted or archived. Doing it again goes on where it was ended.

        Records of trials go trial by trial, so that no other writer waits long.
        """
        sweep_id = deletion.sweep_id
        with self._read() as connection:
            ids = list(connection.execute(select(t.trials.c.id).where(t.trials.c.sweep_id == sweep_id)).scalars())
        for trial_id in ids:
            with writing(self.engine) as connection:
                for table in _MEASURED:
                    gone = _recorded(table, deletion.keep_report) & (table.c.trial_id == trial_id)
                    connection.execute(table.delete().where(gone))
        with writing(self.engine) as connection:
            present = _deletion(connection, t.deletions.c.sweep_id == sweep_id)
            if present is None or present.keep_report != deletion.keep_report:
                return  # the wish has changed meanwhile
            connection.execute(t.problem_sets.delete().where(t.problem_sets.c.sweep_id == sweep_id))
            marks: dict[str, Any] = {"rows_done_at": time.time(), "message": None}
            if deletion.keep_report:  # nothing leads to the runs of an archived sweep any more
                change(connection, t.sweeps, sweep_id, mlflow_run_id=None, mlflow_experiment_id=None)
                trials = update(t.trials).where(t.trials.c.sweep_id == sweep_id)
                connection.execute(trials.values(mlflow_run_id=None))
            else:
                marks["idempotency_key"] = _forget(connection, sweep_id)
            change(connection, t.deletions, sweep_id, **marks)


def _recorded(table: Table, keep_report: bool) -> ColumnElement[bool]:
    """Return the condition for the rows of one of `_MEASURED` that go: all, or all but evaluations."""
    return t.curves.c.kind != "evaluation" if table is t.curves and keep_report else true()


def _deletion(connection: Connection, *which: ColumnElement[bool]) -> Deletion | None:
    row = connection.execute(select(t.deletions).where(*which)).mappings().first()
    return None if row is None else Deletion.model_validate(dict(row))


def _forget(connection: Connection, sweep_id: str) -> str | None:
    """Remove all rows of a sweep but its probes, which serve others; return its idempotency key to remember."""
    trials = select(t.trials.c.id).where(t.trials.c.sweep_id == sweep_id).scalar_subquery()
    connection.execute(t.benchmark_results.delete().where(t.benchmark_results.c.evaluation_id.in_(trials)))
    connection.execute(t.attempts.delete().where(t.attempts.c.trial_id.in_(trials)))
    keys = t.idempotency_keys.c
    key = connection.execute(select(keys.key).where(keys.sweep_id == sweep_id)).scalar_one_or_none()
    for table in (t.trials, t.configs, t.judgements, t.events, t.reports, t.idempotency_keys):
        connection.execute(table.delete().where(table.c.sweep_id == sweep_id))
    connection.execute(t.sweeps.delete().where(t.sweeps.c.id == sweep_id))
    return key


def deleted_with_key(connection: Connection, key: str) -> Deletion | None:
    """Return the deletion, done or to be done, of the sweep that was submitted with an idempotency key."""
    d, keys = t.deletions.c, t.idempotency_keys.c
    pending = d.sweep_id.in_(select(keys.sweep_id).where(keys.key == key))
    return _deletion(connection, ~d.keep_report, or_(d.idempotency_key == key, pending))
