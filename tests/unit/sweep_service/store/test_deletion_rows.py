"""Deleting and archiving sweeps: what goes, what stays, and what is remembered."""

import threading
import time

import pytest
from sqlalchemy import func, select, update

from sweep_service.errors import Conflict, NotFound, SweepDeleted
from sweep_service.intake.spec_check import parse_spec
from sweep_service.store import Store
from sweep_service.store import tables as t
from sweep_service.store.database import writing
from sweep_service.sweep.added_benchmarks import AddedBenchmarks
from sweep_service.sweep.deletion import DeletionState
from sweep_service.sweep.plan import first_records
from sweep_service.sweep.records import Sweep
from tests.stored_sweeps import SPEC, finish, make_sweep, run_trial, start, submit
from tests.waiting import PATIENT_S

KEPT = {"deletions", "probes", "report_parts"}


def ended(store: Store) -> Sweep:
    """Store a sweep whose trials have all run, with a report and a probe."""
    sweep, fence = start(store)
    store.start_probe(fence, "shape", "machines", {}, 0)
    for trial in store.list_trials(sweep.id):
        run_trial(store, fence, trial)
    store.set_trial_run(store.list_trials(sweep.id)[0].id, "run")
    store.set_sweep_run(sweep.id, "experiment", "parent")
    finish(store, fence)
    store.put_report(sweep.id, "digest", {"html": b"report"})
    store.release_lease(fence)
    return store.get_sweep(sweep.id)


def rows(store: Store) -> dict[str, int]:
    """Return the number of rows of each table that has any."""
    with store.engine.connect() as connection:
        counts = {
            table.name: connection.execute(select(func.count()).select_from(table)).scalar_one()
            for table in t.metadata.sorted_tables
        }
    return {name: number for name, number in counts.items() if number}


def test_only_a_sweep_that_has_ended_is_deleted(store: Store) -> None:
    sweep = submit(store)
    with pytest.raises(Conflict, match=f"QUEUED.*cancel it first: sweeps cancel {sweep.id}"):
        store.request_deletion(sweep.id, keep_report=False)
    with pytest.raises(NotFound):
        store.request_deletion("swp_none", keep_report=False)
    assert store.open_deletions() == []


@pytest.mark.both_databases
def test_a_sweep_is_not_deleted_while_somebody_gives_it_more_to_do(store: Store) -> None:
    sweep, inside, asked = ended(store), threading.Event(), list[str]()

    def delete() -> None:
        inside.wait(PATIENT_S)
        try:
            store.request_deletion(sweep.id, keep_report=False)
        except Conflict as error:
            asked.append(str(error))

    thread = threading.Thread(target=delete)
    thread.start()
    with writing(store.engine) as connection:
        connection.execute(update(t.sweeps).where(t.sweeps.c.id == sweep.id).values(state="QUEUED"))
        inside.set()
        time.sleep(0.5)  # the deletion waits for this transaction
    thread.join(PATIENT_S)
    assert len(asked) == 1
    assert "QUEUED" in asked[0]
    assert store.deletions([sweep.id]) == {}


@pytest.mark.both_databases
def test_nothing_of_a_deleted_sweep_is_left_but_its_name_and_its_probes(store: Store) -> None:
    sweep = ended(store)
    assert store.count_rows(sweep.id) > 20
    assert store.count_runs(sweep.id) == 2
    asked = store.request_deletion(sweep.id, keep_report=False, by="0a1b")
    assert store.request_deletion(sweep.id, keep_report=False, by="other") == asked
    assert (asked.state, asked.name, asked.by) == (DeletionState.ASKED, "betas", "0a1b")
    event = store.list_events(sweep.id)[-1]
    assert (event.type, event.data) == ("sweep.delete_requested", {"keep_report": False, "by": "0a1b"})
    store.remove_rows(asked)
    assert rows(store).keys() <= KEPT | {"alembic_version"}
    assert store.find_probe("shape") is None  # it has no figures, but its row is there
    assert rows(store)["probes"] == 1
    with pytest.raises(NotFound):
        store.get_sweep(sweep.id)
    assert store.deletions([sweep.id])[sweep.id].state is DeletionState.DELETED
    assert store.open_deletions() == []
    assert store.request_deletion(sweep.id, keep_report=False).state is DeletionState.DELETED
    store.remove_rows(asked)  # as after a crash between the last step and its mark


@pytest.mark.both_databases
def test_an_archived_sweep_keeps_its_trials_and_its_report(store: Store) -> None:
    sweep = ended(store)
    before, counted = rows(store), store.count_rows(sweep.id, keep_report=True)
    store.remove_rows(store.request_deletion(sweep.id, keep_report=True))
    evaluations = store.curves(sweep.id, ["eval/avg_at_k"])
    gone = {"curves", "samples", "problem_counts", "checkpoints", "kept_models", "problem_sets"}
    assert {name: number for name, number in before.items() if name not in gone | {"events"}} == {
        name: number for name, number in rows(store).items() if name not in {"events", "deletions", "curves"}
    }
    tables = gone - {"problem_sets"}  # which belong to the sweep, and are not counted
    assert counted == sum(before.get(name, 0) - rows(store).get(name, 0) for name in tables) > 0
    assert store.count_rows(sweep.id, keep_report=True) == 0
    assert store.get_sweep(sweep.id).mlflow_run_id is None
    assert store.get_report(sweep.id, "html") == b"report"
    assert store.curves(sweep.id, ["entropy"]) == []
    assert evaluations
    assert store.curves(sweep.id, ["eval/avg_at_k"]) == evaluations
    assert store.deletions([sweep.id])[sweep.id].state is DeletionState.ARCHIVED
    for change in (
        lambda: store.request_cancel(sweep.id),
        lambda: store.open_again(store.get_sweep(sweep.id), AddedBenchmarks(names=("a",), trials=()), {}),
        lambda: store.give_more(store.get_sweep(sweep.id), sweep.spec, [], "sweep.extended", {}),
    ):
        with pytest.raises(Conflict, match="is archived"):
            change()
    deleted = store.request_deletion(sweep.id, keep_report=False)
    assert deleted.state is DeletionState.ASKED
    with pytest.raises(Conflict, match="cannot be archived"):
        store.request_deletion(sweep.id, keep_report=True)
    store.remove_rows(deleted)
    assert store.deletions([sweep.id])[sweep.id].state is DeletionState.DELETED


def test_a_removal_that_was_ended_in_the_middle_goes_on(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    sweep = ended(store)
    asked = store.request_deletion(sweep.id, keep_report=False)

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("sweep_service.store.deletion_rows._forget", die)
        with pytest.raises(KeyboardInterrupt):
            store.remove_rows(asked)
    assert store.open_deletions() == [asked]
    assert store.curves(sweep.id, ["entropy"]) == []
    assert store.get_sweep(sweep.id) == sweep.model_copy()
    store.remove_rows(asked)
    assert store.open_deletions() == []


def test_a_key_of_a_deleted_sweep_submits_nothing(store: Store) -> None:
    spec = parse_spec(SPEC)

    def submit_with_key() -> Sweep:
        sweep = make_sweep(spec)
        return store.create_sweep(sweep, *first_records(spec, sweep.id), ("key", "fingerprint"))

    sweep = submit_with_key()
    store.request_cancel(sweep.id)
    archived = store.request_deletion(sweep.id, keep_report=True)
    store.remove_rows(archived)
    assert submit_with_key().id == sweep.id
    asked = store.request_deletion(sweep.id, keep_report=False)
    with pytest.raises(SweepDeleted, match=sweep.id):
        submit_with_key()
    store.remove_rows(asked)
    with pytest.raises(SweepDeleted, match=r"betas.*with a new key"):
        submit_with_key()
    assert store.list_sweeps(9) == []


@pytest.mark.both_databases
def test_mlflow_is_not_asked_to_show_what_is_deleted(store: Store) -> None:
    sweep = ended(store)
    assert [one.id for one in store.sweeps_behind()] == [sweep.id]
    assert store.behind()
    store.request_deletion(sweep.id, keep_report=True)
    assert store.sweeps_behind() == []
    assert store.behind() == []
    assert store.evaluations_behind() == []
    assert store.sweep_runs() == {}
    assert [deletion.sweep_id for deletion in store.deletions_in_mlflow()] == [sweep.id]
    store.set_mlflow_deleted(sweep.id)
    assert store.deletions_in_mlflow() == []
