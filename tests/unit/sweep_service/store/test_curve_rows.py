"""What people who watch a sweep are told of new points, from either database."""

import pytest

from sweep_service.store import Store
from tests.unit.sweep_service.store.test_report_rows import fill


@pytest.mark.both_databases
def test_only_the_metrics_that_were_asked_for_come_and_only_where_they_were_recorded(store: Store) -> None:
    sweep_id = fill(store)
    found = store.new_points(sweep_id, ("entropy", "eval/avg_at_k"), 0, 1000)
    assert [part.id for part in found] == sorted(part.id for part in found)
    assert {tuple(part.metrics) for part in found} == {("entropy",), ("eval/avg_at_k",)}
    assert all(len(values) == len(part.steps) for part in found for values in part.metrics.values())
    whole = {series.trial_id: series for series in store.series(sweep_id, ("entropy",))}
    for trial_id, series in whole.items():
        mine = [part for part in found if part.trial_id == trial_id and "entropy" in part.metrics]
        told = dict(pair for part in mine for pair in zip(part.steps, part.metrics["entropy"], strict=True))
        recorded = series.get("entropy")
        assert recorded is not None
        assert {step: value for step, value in told.items() if value is not None} == dict(
            zip(recorded.present.steps.tolist(), recorded.present.values.tolist(), strict=True)
        )


@pytest.mark.both_databases
def test_parts_come_in_order_and_not_again(store: Store) -> None:
    sweep_id = fill(store)
    everything = store.new_points(sweep_id, ("entropy",), 0, 1000)
    first = store.new_points(sweep_id, ("entropy",), 0, 2)
    assert [*first, *store.new_points(sweep_id, ("entropy",), first[-1].id, 1000)] == everything
