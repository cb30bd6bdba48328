"""What people who watch a sweep are told of new points, from either database."""

import pytest

from sweep_service.store import Store
from sweep_service.sweep.endings import Ending
from tests import stored_sweeps as sweeps
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


@pytest.mark.both_databases
def test_last_points_are_all_evaluations_and_each_trials_last_step(store: Store) -> None:
    keys = ("entropy", "eval/avg_at_k")
    sweep, fence = sweeps.start(store)
    for trial in store.list_trials(sweep.id):
        sweeps.run_trial(store, fence, trial)
    other, fence = sweeps.start(store)
    assert store.last_points(other.id, keys) == []
    sweeps.run_trial(store, fence, store.list_trials(other.id)[0])
    everything = store.new_points(sweep.id, keys, 0, 1000)
    expected = [part for part in everything if "entropy" not in part.metrics or part.steps[-1] == 16]
    assert store.last_points(sweep.id, keys) == expected
    assert len(everything) > len(expected) > len(store.list_trials(sweep.id))


def test_of_a_trial_that_began_again_the_last_step_stands_as_the_newest_attempt_has_it(store: Store) -> None:
    sweep, fence = sweeps.start(store)
    trial = store.list_trials(sweep.id)[0]
    for first, last in ((1, 10), (3, 10), (4, 5)):
        sweeps.one_attempt(store, fence, trial.id, Ending.CRASHED, [*sweeps.training_events(first, last, every=99)])
    found = store.last_points(sweep.id, ("entropy",))
    assert [part.steps[-1] for part in found] == [10, 10]
    assert found[0].id < found[1].id


def test_a_step_that_comes_again_right_away_is_one_step(store: Store) -> None:
    sweep, fence = sweeps.start(store)
    trial = store.list_trials(sweep.id)[0]
    for first, last in ((1, 8), (8, 10)):
        sweeps.one_attempt(store, fence, trial.id, Ending.CRASHED, [*sweeps.training_events(first, last, every=99)])
    (curve,) = store.curves(sweep.id, ["entropy"])
    assert curve.steps == list(range(1, 11))
    assert len(curve.values) == len(curve.times) == 10
