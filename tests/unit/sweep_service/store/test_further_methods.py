"""Short methods of the store that no scenario of the other files calls, on both databases."""

import pytest
from sqlalchemy import select

from sweep_service.store import Store, tables
from tests import stored_sweeps as sweeps


@pytest.mark.both_databases
def test_what_a_trial_has_recorded_is_found_by_name_and_place(store: Store) -> None:
    sweep, fence = sweeps.start(store)
    first, second, *_ = store.list_trials(sweep.id)
    texts = {first.id: "two", second.id: "three"}
    for trial, steps in ((first, 4), (second, 7)):
        attempt = store.start_attempt(fence, trial.id, "/data/{attempt}")
        samples = [{"prompt": "1+1=", "completion": texts[trial.id], "answer": "2", "reward": 0.5, "correct": False}]
        events = [*sweeps.training_events(1, steps), {"type": "samples", "step": 4, "samples": samples}]
        sweeps.ingest(store, fence, attempt, events)
        assert store.events_offset(attempt) == len(events) == steps + 2
        further = sweeps.training_events(steps + 1, steps + 4, every=99)  # updates are a trial's newest part
        sweeps.ingest(store, fence, attempt, [*further])
    recorded = next(event for event in sweeps.training_events(1, 4) if event["type"] == "step")["metrics"]
    assert store.metric_keys(sweep.id) == recorded.keys() | {"eval/avg_at_k", "eval/pass_at_k"}
    found = store.samples_at([(second.id, 4), (first.id, 4), (first.id, 8)])
    assert [(sample.trial_id, sample.completion) for sample in found] == [(second.id, "three"), (first.id, "two")]
    assert store.get_work(second.id).id == second.id


@pytest.mark.both_databases
def test_marks_of_a_sweep_are_told_and_those_of_its_neighbour_stay(store: Store) -> None:
    (sweep, fence), (other, others) = sweeps.start(store), sweeps.start(store)
    trial = store.list_trials(sweep.id)[0]
    store.reuse_probe(fence, store.start_probe(others, "shape", "H100", {"steps": 3}, 2.0))
    last = store.list_events(sweep.id)[-1]
    assert (last.type, last.data) == ("probe.reused", {"sweep_id": other.id})
    store.say_what_delays(fence, "no node has room")
    store.set_results_projected(trial.id, 3)
    with store.engine.connect() as connection:
        marks = dict(connection.execute(select(tables.trials.c.id, tables.trials.c.mlflow_curve_id)).all())
    assert marks == {one.id: 3 * (one.id == trial.id) for id_ in (sweep.id, other.id) for one in store.list_trials(id_)}
    assert [store.get_sweep(one.id).message for one in (sweep, other)] == ["no node has room", None]
    assert [one.id for one in store.projectable()] == [sweep.id, other.id]
    sweeps.finish(store, fence)
    asked = store.request_deletion(sweep.id, keep_report=False)
    store.set_deletion_hindered(asked.sweep_id, "the disk is read-only")
    assert [one.message for one in store.open_deletions()] == ["the disk is read-only"]
    store.set_files_deleted(asked.sweep_id)
    (deletion,) = store.open_deletions()
    assert deletion.message is None
    assert deletion.files_done_at is not None
    assert [one.id for one in store.projectable()] == [other.id]
