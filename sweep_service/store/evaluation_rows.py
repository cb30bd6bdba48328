"""Evaluations of models on benchmarks, and their results. Attempts of evaluations are kept as those of trials."""

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import select

from sweep_service.store import tables as t
from sweep_service.store.base import EVALUATION_STAGE, Fence, Rows, append_event
from sweep_service.sweep.records import BenchmarkResult, Evaluation, TrialState


class EvaluationRows(Rows):
    """The part of the store that keeps evaluations and their results."""

    def add_evaluations(self, fence: Fence, evaluations: Sequence[Evaluation]) -> None:
        """Store new evaluations."""
        own = {"stage": EVALUATION_STAGE, "summary": {}, "warnings": []}
        rows = [
            evaluation.model_dump(mode="json", exclude={"trial_id"}) | own | {"trained_by": evaluation.trial_id}
            for evaluation in evaluations
        ]
        with self._fenced(fence) as connection:
            if rows:
                connection.execute(t.trials.insert(), rows)
                append_event(connection, fence.sweep_id, "evaluations.added", {"evaluations": len(rows)})

    def list_evaluations(self, sweep_id: str, states: Sequence[TrialState] = ()) -> list[Evaluation]:
        """Return a sweep's evaluations by number. Raises: NotFound."""
        c = t.trials.c
        query = select(t.trials).where(c.sweep_id == sweep_id, c.stage == EVALUATION_STAGE).order_by(c.number)
        if states:
            query = query.where(c.state.in_([state.value for state in states]))
        with self._read(sweep_id) as connection:
            return [evaluation_of(row) for row in connection.execute(query).mappings()]

    def kept_models(self, sweep_id: str) -> dict[tuple[str, int], str]:
        """Return the folder of each model that a trial has kept for an evaluation, by trial and optimizer step."""
        k = t.kept_models
        query = select(k).join(t.trials).where(t.trials.c.sweep_id == sweep_id)
        return {(row.trial_id, row.step): row.path for row in self._rows(query)}

    def benchmark_results(
        self, sweep_id: str, benchmark: str | None = None, evaluation_ids: Collection[str] | None = None
    ) -> list[BenchmarkResult]:
        """Return the results of a sweep's evaluations so far, by number of the evaluation, then by benchmark.

        Args:
            benchmark: only the results on this one.
            evaluation_ids: only the results of these evaluations.
        Raises: NotFound.
        """
        r = t.benchmark_results
        query = select(r).join(t.trials).where(t.trials.c.sweep_id == sweep_id)
        if benchmark is not None:
            query = query.where(r.c.benchmark == benchmark)
        if evaluation_ids is not None:
            query = query.where(r.c.evaluation_id.in_(evaluation_ids))
        return self._records(BenchmarkResult, query.order_by(t.trials.c.number, r.c.benchmark), sweep_id)


def evaluation_of(row: Any) -> Evaluation:
    """Read an evaluation from its row of the table `trials`."""
    return Evaluation.model_validate(dict(row) | {"trial_id": row["trained_by"]})
