"""Sweeps that are given more: benchmarks, configs, seeds, hours, another try. Each time a new generation begins."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, RowMapping

from sweep_service.errors import Conflict
from sweep_service.store import tables as t
from sweep_service.store.base import append_event, as_sweep, change, one_sweep
from sweep_service.store.database import writing
from sweep_service.store.sweep_rows import SweepRows
from sweep_service.store.trial_rows import wait_again
from sweep_service.sweep.added_benchmarks import AddedBenchmarks
from sweep_service.sweep.endings import TrialState
from sweep_service.sweep.records import DesiredState, Sweep, SweepState
from sweep_service.sweep.spec import SweepSpec


class GenerationRows(SweepRows):
    """Writes that begin a new generation of a sweep."""

    def give_more(
        self, sweep: Sweep, spec: SweepSpec, again: Sequence[str], event: str, data: Mapping[str, Any]
    ) -> Sweep:
        """Let a sweep go on with another spec, and with trials that have ended; an ended sweep is opened again.

        Args:
            sweep: the sweep as the caller has read it.
            again: ids of trials that wait again. Their crashes so far count no more.
            event, data: type and content of the event that tells of it.
        Raises: NotFound; Conflict, if the sweep has changed meanwhile.
        """
        with writing(self.engine) as connection:
            row = _unchanged(connection, sweep, "state", "desired_state", "spec", "generation")
            wait_again(connection, sweep.id, again)
            values: dict[str, Any] = {"spec": spec.model_dump(mode="json"), "spec_digest": spec.digest}
            if spec.space.varied != sweep.spec.space.varied:  # then MLflow names configs by other parameters
                values["mlflow_anew"] = True
            change(connection, t.sweeps, sweep.id, generation=row["generation"] + 1, **values)
            append_event(connection, sweep.id, event, data)
            if sweep.state.is_over:
                _open(connection, sweep.id)
        return self.get_sweep(sweep.id)

    def open_again(
        self, sweep: Sweep, added: AddedBenchmarks, evaluations: Mapping[str, int], by: str | None = None
    ) -> Sweep:
        """Let a runner measure a sweep that has ended on more benchmarks, and have its report built anew.

        Args:
            sweep: the sweep as the caller has read it.
            evaluations: number of benchmarks, by id, of each evaluation that is to be handed out again.
        Raises: NotFound; Conflict, if the sweep has changed meanwhile.
        """
        with writing(self.engine) as connection:
            row = _unchanged(connection, sweep, *Sweep.model_fields)
            if added not in sweep.added_benchmarks:
                asked = [*row["added_benchmarks"], added.model_dump(mode="json")]
                change(connection, t.sweeps, sweep.id, added_benchmarks=asked)
            waiting = {"state": TrialState.PENDING, "ending": None, "ended_at": None, "message": None}
            for evaluation_id, number in evaluations.items():
                change(connection, t.trials, evaluation_id, total_steps=number, **waiting)
                data = {"evaluation_id": evaluation_id, "state": TrialState.PENDING, "message": None}
                append_event(connection, sweep.id, "evaluation.state_changed", data)
            data = {"names": added.names, "trials": len(added.trials), "by": by}
            append_event(connection, sweep.id, "sweep.benchmarks_added", data)
            _open(connection, sweep.id)
        return self.get_sweep(sweep.id)


def _unchanged(connection: Connection, sweep: Sweep, *fields: str) -> RowMapping:
    """Return the row of a sweep, which is locked.

    Raises: NotFound; Conflict, if one of these fields has changed since the caller read the sweep.
    """
    row = one_sweep(connection, sweep.id, lock=True)
    present = as_sweep(row)
    if any(getattr(present, name) != getattr(sweep, name) for name in fields):
        raise Conflict(f"sweep {sweep.id} has changed in this moment; look at it, and ask again")
    return row


def _open(connection: Connection, sweep_id: str) -> None:
    values = {"state": SweepState.QUEUED, "message": None, "ended_at": None, "report_failure": None}
    values |= {"desired_state": DesiredState.RUN, "asks_since": time.time()}
    change(connection, t.sweeps, sweep_id, **values)
    append_event(connection, sweep_id, "sweep.state_changed", {"state": SweepState.QUEUED, "message": None})
