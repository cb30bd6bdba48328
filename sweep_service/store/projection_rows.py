"""The marks of the projection to MLflow: run ids, and how far each trial's curves have been carried over."""

from collections.abc import Collection, Generator, Mapping
from contextlib import contextmanager
from typing import Any, Literal

from sqlalchemy import ColumnElement, and_, exists, func, or_, select, update

from sweep_service.store import tables as t
from sweep_service.store.base import EVALUATION_STAGE, IS_FINAL_REPORT, IS_TRAINING, Rows, change
from sweep_service.store.database import Lock, writing
from sweep_service.store.evaluation_rows import evaluation_of
from sweep_service.sweep.records import Evaluation, Record, Sweep, Trial, TrialState


class Chunk(Record):
    """Some steps of one trial's metrics: `metrics[key][i]` was recorded at `steps[i]` and `times[i]`."""

    id: int
    kind: Literal["step", "evaluation"]
    steps: list[int]
    times: list[float]
    metrics: dict[str, list[float | None]]


class ProjectionRows(Rows):
    """The projection's own marks; losing them costs a repeat, never a point."""

    @contextmanager
    def projecting(self) -> Generator[bool]:
        """Yield true if this process may project now: with PostgreSQL one at a time, or runs would be made twice.

        With SQLite there is only one worker.
        """
        if self.engine.dialect.name == "sqlite":
            yield True
            return
        with self.engine.begin() as connection:
            lock = select(func.pg_try_advisory_xact_lock(Lock.PROJECTION.value))  # until the transaction ends
            yield bool(connection.execute(lock).scalar_one())

    def sweeps_behind(self) -> list[Sweep]:
        """Return sweeps whose state or report MLflow does not show yet, oldest first."""
        s, r = t.sweeps.c, t.reports.c
        standing = select(r.inputs_digest).where(r.sweep_id == s.id, IS_FINAL_REPORT).limit(1)
        reported = s.mlflow_report.is_distinct_from(standing.scalar_subquery())
        query = select(t.sweeps).where(s.mlflow_state.is_distinct_from(s.state) | reported, ~_is_deleted(s.id))
        return self._sweeps(query.order_by(s.id))

    def sweep_runs(self) -> dict[str, str]:
        """Return the parent run of each sweep that has one, by sweep id."""
        s = t.sweeps.c
        query = select(s.id, s.mlflow_run_id).where(s.mlflow_run_id.is_not(None), ~_is_deleted(s.id))
        return {row.id: row.mlflow_run_id for row in self._rows(query)}

    def behind(self) -> list[tuple[Trial, str | None]]:
        """Return started trials whose curves or state MLflow does not have yet, with the state that MLflow shows."""
        c, chunk = t.trials.c, t.curves.c
        newest = select(chunk.id).where(chunk.trial_id == c.id).order_by(chunk.id.desc()).limit(1).scalar_subquery()
        lagging = (c.mlflow_curve_id < newest) | (c.mlflow_state.is_distinct_from(c.state))
        query = select(t.trials).where(IS_TRAINING, c.attempts > 0, lagging, ~_is_deleted(c.sweep_id))
        with self._read() as connection:
            rows = connection.execute(query.order_by(c.sweep_id, c.number)).mappings().all()
        return [(Trial.model_validate(dict(row)), row["mlflow_state"]) for row in rows]

    def evaluations_behind(self) -> list[tuple[Evaluation, int]]:
        """Return the evaluations that MLflow does not have all results of, each with the number of its results.

        The evaluation of a trained model is left out until its trial has a run.
        """
        c, trained = t.trials.c, t.trials.alias("trained")
        results = select(func.count()).where(t.benchmark_results.c.evaluation_id == c.id).scalar_subquery()
        ready = t.sweeps.c.mlflow_run_id.is_not(None), or_(c.trained_by.is_(None), trained.c.mlflow_run_id.is_not(None))
        rows = t.trials.join(t.sweeps).outerjoin(trained, trained.c.id == c.trained_by)
        query = select(t.trials, results.label("results")).select_from(rows)
        query = query.where(c.stage == EVALUATION_STAGE, *ready, c.mlflow_curve_id < results, ~_is_deleted(c.sweep_id))
        with self._read() as connection:
            evaluations = connection.execute(query.order_by(c.sweep_id, c.number)).mappings().all()
        return [(evaluation_of(row), row["results"]) for row in evaluations]

    def chunks_behind(self, trial_id: str, limit: int) -> list[Chunk]:
        """Return the next chunks of a trial's curves that MLflow does not have, in the order in which they came."""
        c = t.curves.c
        done = select(t.trials.c.mlflow_curve_id).where(t.trials.c.id == trial_id).scalar_subquery()
        query = select(c.id, c.kind, c.points).where(c.trial_id == trial_id, c.id > done).order_by(c.id).limit(limit)
        return [Chunk(id=row.id, kind=row.kind, **row.points) for row in self._rows(query)]

    def set_sweep_run(self, sweep_id: str, experiment_id: str, run_id: str) -> None:
        """Note the sweep's parent run."""
        self._change(t.sweeps, sweep_id, mlflow_experiment_id=experiment_id, mlflow_run_id=run_id)

    def set_trial_run(self, trial_id: str, run_id: str) -> None:
        """Note the trial's run."""
        self._change(t.trials, trial_id, mlflow_run_id=run_id)

    def set_sweep_projected(self, sweep_id: str, state: str, report: str | None) -> None:
        """Note the state of a sweep that MLflow shows, and the digest of the report."""
        self._change(t.sweeps, sweep_id, mlflow_state=state, mlflow_report=report)

    def forget_projection(self, sweep_id: str) -> None:
        """Forget all marks of a sweep, its trials and its evaluations, so that everything is carried over again."""
        nothing: Mapping[str, Any] = {"mlflow_run_id": None, "mlflow_state": None}
        with writing(self.engine) as connection:
            of_sweep = {"mlflow_experiment_id": None, "mlflow_report": None, "mlflow_anew": False}
            change(connection, t.sweeps, sweep_id, **nothing, **of_sweep)
            trials = update(t.trials).where(t.trials.c.sweep_id == sweep_id)
            connection.execute(trials.values(**nothing, mlflow_curve_id=0))

    def request_projection(self, sweep_ids: Collection[str]) -> int:
        """Note that sweeps are to be carried over anew, which the worker does: it alone moves marks.

        Returns: the number of the newest part of a curve, up to which `projection_left` looks.
        """
        s = t.sweeps.c
        with writing(self.engine) as connection:
            connection.execute(update(t.sweeps).where(s.id.in_(sweep_ids), ~_is_deleted(s.id)).values(mlflow_anew=True))
            return connection.execute(select(func.coalesce(func.max(t.curves.c.id), 0))).scalar_one()

    def projections_requested(self) -> list[str]:
        """Return the ids of the sweeps that somebody wants carried over anew, oldest first."""
        s = t.sweeps.c
        query = select(s.id).where(s.mlflow_anew, ~_is_deleted(s.id)).order_by(s.id)
        return [row.id for row in self._rows(query)]

    def projectable(self) -> list[Sweep]:
        """Return the sweeps that belong into MLflow, oldest first: all without a deletion."""
        return self._sweeps(select(t.sweeps).where(~_is_deleted(t.sweeps.c.id)).order_by(t.sweeps.c.id))

    def projection_left(self, sweep_ids: Collection[str], newest: int) -> int:
        """Return the number of runs, of sweeps and of their begun trials, that MLflow does not have all of yet.

        Args:
            newest: number of the newest part of a curve that counts, for trials that run write more all the time.
        """
        s, c, chunk = t.sweeps.c, t.trials.c, t.curves.c
        wanted = and_(s.id.in_(sweep_ids), ~_is_deleted(s.id))
        parents = select(func.count()).where(wanted, or_(s.mlflow_anew, s.mlflow_state.is_(None)))
        behind = exists().where(chunk.trial_id == c.id, chunk.id > c.mlflow_curve_id, chunk.id <= newest)
        over = c.state.in_([state.value for state in TrialState if state.is_over])
        left = or_(
            c.mlflow_run_id.is_(None), behind, and_(over, c.mlflow_state.is_distinct_from(c.state)), s.mlflow_anew
        )
        runs = select(func.count()).join_from(t.trials, t.sweeps)
        runs = runs.where(wanted, IS_TRAINING, c.attempts > 0, left)
        with self._read() as connection:
            unscored = sum(one.sweep_id in sweep_ids for one, _ in self.evaluations_behind())
            return unscored + sum(connection.execute(query).scalar_one() for query in (parents, runs))

    def set_projected(self, trial_id: str, *, curve_id: int | None = None, state: str | None = None) -> None:
        """Note the last chunk of a trial that MLflow has, or the state that it shows."""
        marks = {"mlflow_curve_id": curve_id, "mlflow_state": state}
        self._change(t.trials, trial_id, **{name: mark for name, mark in marks.items() if mark is not None})

    def set_results_projected(self, evaluation_id: str, results: int) -> None:
        """Note the number of an evaluation's results that MLflow has."""
        self._change(t.trials, evaluation_id, mlflow_curve_id=results)


def _is_deleted(sweep_id: ColumnElement[str]) -> ColumnElement[bool]:
    """Return the condition that somebody wants a sweep gone, or that it is archived."""
    return exists().where(t.deletions.c.sweep_id == sweep_id)
