"""What every store keeps: sweeps, leases, states, events and reports. Trials and curves are in test_trial_rows.py."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
from sqlalchemy import event
from sqlalchemy.exc import IntegrityError

from sweep_service.api import problems
from sweep_service.errors import Conflict, IdempotencyKeyReused, NotFound, NotReady, StaleEpoch
from sweep_service.intake.spec_check import parse_spec
from sweep_service.store import Fence, Store, tables
from sweep_service.store.database import writing
from sweep_service.sweep.endings import Ending, TrialState
from sweep_service.sweep.plan import first_records
from sweep_service.sweep.records import DesiredState, SweepState, new_id
from sweep_service.sweep.sweep_filter import SweepFilter
from tests import stored_sweeps as sweeps
from tests.unit.sweep_service.store.test_writes import rows
from tests.waiting import in_threads

LEASE_S = 3600


# Creation and idempotency


@pytest.mark.both_databases
def test_a_sweep_comes_back_as_it_was_stored(store: Store) -> None:
    spec = parse_spec(sweeps.SPEC)
    sweep = sweeps.make_sweep(spec)
    configs, trials = first_records(spec, sweep.id)
    assert store.create_sweep(sweep, configs, trials) == sweep
    assert store.get_sweep(sweep.id) == sweep
    assert store.list_configs(sweep.id) == configs
    assert store.list_trials(sweep.id) == trials
    assert [(event.seq, event.type) for event in store.list_events(sweep.id)] == [(1, "sweep.created")]


@pytest.mark.both_databases
@pytest.mark.parametrize(
    ("change", "error"),
    [({}, IntegrityError), ({"id": "trl_new", "total_steps": 2**64}, problems.TOO_LARGE)],
    ids=["an id that is there", "a number that has no place, of which the API knows"],
)
def test_creation_is_all_or_nothing(store: Store, change: dict[str, Any], error: type[Exception]) -> None:
    before = rows(store)
    sweep = sweeps.make_sweep(parse_spec(sweeps.SPEC))
    configs, trials = first_records(sweep.spec, sweep.id)
    with pytest.raises(error):
        store.create_sweep(sweep, configs, [*trials, trials[0].model_copy(update=change)], ("key", "request"))
    assert rows(store) == before


def test_a_sweep_keeps_its_spec_beside_one_of_the_same_digest(store: Store) -> None:
    specs = [parse_spec(sweeps.SPEC | {"name": name}) for name in ("first", "second")]
    stored = [sweeps.make_sweep(spec, spec_digest="d" * 64) for spec in specs]
    for sweep in stored:
        store.create_sweep(sweep, [], [])
    assert [store.get_sweep(sweep.id).spec for sweep in [*stored, *stored]] == specs * 2


@pytest.mark.both_databases
def test_the_largest_numbers_of_a_spec_are_stored(store: Store) -> None:
    largest = {"training": {"steps": 10_000_000}, "seeds": {"tune": [2**32 - 1]}, "resources": {"cpus": 1024}}
    sweep = sweeps.submit(store, **largest)
    assert store.get_sweep(sweep.id).spec == parse_spec(sweeps.SPEC | largest)
    assert {(trial.seed, trial.total_steps) for trial in store.list_trials(sweep.id)} == {(2**32 - 1, 10_000_000)}


@pytest.mark.both_databases
def test_cancelling_thousands_of_waiting_trials_takes_a_few_statements(store: Store) -> None:
    sweep = sweeps.submit(store, seeds={"tune": list(range(300))})
    statements = list[str]()
    event.listen(store.engine, "before_cursor_execute", lambda *arguments: statements.append(arguments[2]))
    assert store.request_cancel(sweep.id).state is SweepState.CANCELLED
    assert len(statements) < 30
    trials = store.list_trials(sweep.id)
    assert {trial.state for trial in trials} == {TrialState.CANCELLED}
    events = store.list_events(sweep.id, limit=10_000)
    assert [one.seq for one in events] == list(range(1, len(events) + 1))
    moved = [one.data["trial_id"] for one in events if one.type == "trial.state_changed"]
    assert moved == [trial.id for trial in trials]


@pytest.mark.both_databases
def test_the_same_key_gives_the_same_sweep_once(store: Store) -> None:
    def create(_: int) -> str:
        sweep = sweeps.make_sweep(parse_spec(sweeps.SPEC))
        return store.create_sweep(sweep, *first_records(sweep.spec, sweep.id), ("key", "request")).id

    ids = in_threads(8, create)
    assert len(set(ids)) == 1
    assert [sweep.id for sweep in store.list_sweeps(10)] == ids[:1]
    other = sweeps.make_sweep(parse_spec(sweeps.SPEC))
    with pytest.raises(IdempotencyKeyReused, match="key"):
        store.create_sweep(other, *first_records(other.spec, other.id), ("key", "another request"))
    assert len(store.list_sweeps(10)) == 1


# Pages


@pytest.mark.both_databases
def test_sweeps_come_in_pages_newest_first(store: Store) -> None:
    ids = [sweeps.submit(store).id for _ in range(5)]
    newest_first = ids[::-1]
    assert ids == sorted(ids)
    assert [sweep.id for sweep in store.list_sweeps(2)] == newest_first[:2]
    assert [sweep.id for sweep in store.list_sweeps(2, before=newest_first[1])] == newest_first[2:4]
    assert store.list_sweeps(2, before=newest_first[4]) == []
    store.set_sweep_state(sweeps.claimed(store)[1], SweepState.RUNNING)
    assert [sweep.id for sweep in store.list_sweeps(10, only=SweepFilter(states=(SweepState.RUNNING,)))] == [ids[0]]
    assert len(store.list_sweeps(10, only=SweepFilter(states=(SweepState.QUEUED,)))) == 4


# Claims and leases


@pytest.mark.both_databases
def test_a_sweep_is_claimed_once_however_many_try(store: Store) -> None:
    sweep = sweeps.submit(store)
    claims = in_threads(8, lambda index: store.claim(f"worker {index}", LEASE_S))
    (winner,) = [claim for claim in claims if claim is not None]
    assert (winner.id, winner.epoch) == (sweep.id, 1)
    assert store.claim("late", LEASE_S) is None


def test_a_claim_for_cancelling_leaves_other_sweeps_alone(store: Store) -> None:
    sweeps.submit(store)
    unwanted = sweeps.submit(store)
    held = [sweeps.claimed(store)[1] for _ in range(2)]
    store.request_cancel(unwanted.id)
    for fence in held:
        store.release_lease(fence)
    assert sweeps.claimed(store, to_cancel=True)[0].id == unwanted.id
    assert store.claim("test", LEASE_S, to_cancel=True) is None


@pytest.mark.both_databases
def test_a_renewed_lease_holds_and_a_released_one_does_not(store: Store) -> None:
    sweep = sweeps.submit(store)
    store.claim("first", 0)
    store.renew_lease(Fence(sweep.id, 1), LEASE_S)
    assert store.claim("second", LEASE_S) is None
    store.release_lease(Fence(sweep.id, 0))
    assert store.claim("second", LEASE_S) is None
    store.release_lease(Fence(sweep.id, 1))
    assert sweeps.claimed(store)[0].epoch == 2


# States

ALLOWED = {
    "QUEUED": {"RUNNING", "FINALIZING", "CANCELLED", "FAILED"},
    "RUNNING": {"QUEUED", "FINALIZING", "CANCELLED", "FAILED"},
    "FINALIZING": {"SUCCEEDED", "CANCELLED", "FAILED"},
    "SUCCEEDED": set[str](),
    "FAILED": set[str](),
    "CANCELLED": set[str](),
}
WAYS = {
    "QUEUED": [],
    "RUNNING": ["RUNNING"],
    "FINALIZING": ["RUNNING", "FINALIZING"],
    "SUCCEEDED": ["RUNNING", "FINALIZING", "SUCCEEDED"],
    "FAILED": ["FAILED"],
    "CANCELLED": ["CANCELLED"],
}


@pytest.mark.parametrize("before", WAYS)
def test_a_sweep_moves_between_states_only_as_allowed(store: Store, before: str) -> None:
    for after in ALLOWED:
        sweep = sweeps.submit(store)
        while (claimed := store.claim("test", LEASE_S)) and claimed.id != sweep.id:
            pass
        fence = Fence(sweep.id, 1)
        for state in WAYS[before]:
            store.set_sweep_state(fence, SweepState(state))
        events = len(store.list_events(sweep.id))
        if after in ALLOWED[before]:
            store.set_sweep_state(fence, SweepState(after), "why")
            stored = store.get_sweep(sweep.id)
            assert (stored.state, stored.message) == (after, "why")
            assert (stored.ended_at is not None) == (after in {"SUCCEEDED", "FAILED", "CANCELLED"})
            news = [event.type for event in store.list_events(sweep.id)[events:]]
            assert news.count("sweep.state_changed") == 1
            assert after not in {"FAILED", "CANCELLED"} or all(t.state.is_over for t in store.list_trials(sweep.id))
        elif after == before:
            store.set_sweep_state(fence, SweepState(after), "why")
            assert len(store.list_events(sweep.id)) == events
        else:
            with pytest.raises(Conflict, match=f"from {before} to {after}"):
                store.set_sweep_state(fence, SweepState(after))
            assert store.get_sweep(sweep.id).state == before


def test_cancelling_is_noted_once_for_whoever_holds_the_sweep(store: Store) -> None:
    sweep, _ = sweeps.start(store)
    before = len(store.list_events(sweep.id))
    results = in_threads(4, lambda _: store.request_cancel(sweep.id).desired_state)
    assert results == [DesiredState.CANCEL] * 4
    assert [event.type for event in store.list_events(sweep.id, before)] == ["sweep.cancel_requested"]
    assert store.get_sweep(sweep.id).state is SweepState.RUNNING


def test_a_sweep_that_nobody_has_begun_is_cancelled_at_once(store: Store) -> None:
    sweep = sweeps.submit(store)
    results = in_threads(4, lambda _: store.request_cancel(sweep.id).state)
    assert results == [SweepState.CANCELLED] * 4
    cancelled, trials = store.get_sweep(sweep.id), store.list_trials(sweep.id)
    assert (cancelled.desired_state, cancelled.started_at) == (DesiredState.CANCEL, None)
    assert cancelled.ended_at is not None
    assert {(trial.state, trial.ending) for trial in trials} == {(TrialState.CANCELLED, Ending.CANCELLED)}
    types = [event.type for event in store.list_events(sweep.id)]
    ended = ["trial.state_changed"] * len(trials)
    assert types == ["sweep.created", "sweep.cancel_requested", *ended, "sweep.state_changed"]
    assert store.claim("test", LEASE_S) is None
    assert store.next_late([]) == sweep.id


def test_a_queued_sweep_that_somebody_holds_is_left_to_him_until_he_lets_go(store: Store) -> None:
    sweep = sweeps.submit(store)
    _, fence = sweeps.claimed(store)
    assert store.request_cancel(sweep.id).state is SweepState.QUEUED
    store.release_lease(fence)
    assert store.request_cancel(sweep.id).state is SweepState.CANCELLED
    with pytest.raises(StaleEpoch):
        store.set_sweep_state(fence, SweepState.RUNNING)


@pytest.mark.both_databases
def test_of_a_claim_and_a_cancel_at_the_same_moment_one_wins(store: Store) -> None:
    for _ in range(8):
        sweep = sweeps.submit(store)
        acts: list[Callable[[], Any]] = [
            lambda: store.claim("worker", LEASE_S),
            partial(store.request_cancel, sweep.id),
        ]
        claimed, _ = in_threads(2, lambda index, acts=acts: acts[index]())
        stored = store.get_sweep(sweep.id)
        assert (stored.epoch, stored.desired_state) == (1, DesiredState.CANCEL)
        types = [event.type for event in store.list_events(sweep.id)]
        if claimed is None:
            assert stored.state is SweepState.CANCELLED
            assert "sweep.claimed" not in types
        else:
            assert (claimed.id, stored.state) == (sweep.id, SweepState.QUEUED)
            assert "sweep.state_changed" not in types
            store.set_sweep_state(Fence(sweep.id, 1), SweepState.CANCELLED)  # or the next round would claim it


def test_what_has_ended_cannot_be_cancelled(store: Store) -> None:
    sweep, fence = sweeps.start(store)
    sweeps.finish(store, fence)
    with pytest.raises(Conflict, match="SUCCEEDED"):
        store.request_cancel(sweep.id)
    assert store.get_sweep(sweep.id).desired_state is DesiredState.RUN
    cancelled, fence = sweeps.start(store)
    store.set_sweep_state(fence, SweepState.CANCELLED)
    store.request_cancel(cancelled.id)


# Events


@pytest.mark.both_databases
def test_events_have_no_gaps_whoever_writes_and_reads(store: Store) -> None:
    sweep, fence = sweeps.start(store)
    trials = store.list_trials(sweep.id)
    done = threading.Event()

    def read() -> int:
        seen = 0
        while not done.is_set():
            page = store.list_events(sweep.id, after=seen)
            assert [event.seq for event in page] == list(range(seen + 1, seen + 1 + len(page)))
            seen += len(page)
        return seen

    with ThreadPoolExecutor(len(trials) + 1) as pool:
        reader = pool.submit(read)
        for writer in [pool.submit(sweeps.run_trial, store, fence, trial) for trial in trials]:
            writer.result(60)
        done.set()
        assert reader.result(60) > 0
    events = store.list_events(sweep.id)
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert len([event for event in events if event.type == "trial.evaluated"]) == 4 * len(trials)


# What is not there


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        *((name, ()) for name in ("get_sweep", "request_cancel", "last_probe", "newest_checkpoints")),
        *((f"list_{rows}", ()) for rows in ("configs", "trials", "events", "samples")),
        ("curves", (["loss"],)),
        ("get_report", ("html",)),
        ("problem_counts", (3,)),
    ],
)
def test_an_unknown_sweep_is_not_found(store: Store, method: str, arguments: tuple[Any, ...]) -> None:
    with pytest.raises(NotFound, match="swp_no"):
        list(getattr(store, method)("swp_no", *arguments))


# Reports


@pytest.mark.both_databases
def test_superseded_reports_are_read_by_their_digests_alone(store: Store) -> None:
    sweep, fence = sweeps.start(store)
    assert store.report_digest(sweep.id) is None
    contents = {"json": b'{"report_version":4,"rest":' + 4000 * b"0" + b"}", "verdict": b"{}"}
    store.put_report(sweep.id, "one", contents)
    store.put_report(sweep.id, "one", {"json": b"same digest, same report"})
    assert store.get_report(sweep.id, "json") == contents["json"]
    store.put_report(sweep.id, "two", {"json": b'{"report_version":9}'})
    standing, earlier = store.stored_reports(sweep.id)
    assert (standing.digest, standing.report_version, standing.superseded_at) == ("two", 9, None)
    assert (earlier.digest, earlier.report_version) == ("one", 4)
    assert earlier.created_at <= (earlier.superseded_at or 0) <= standing.created_at
    with pytest.raises(NotReady, match=sweep.id):
        store.get_report(sweep.id, "verdict")
    report = store.find_report(sweep.id, "verdict", "one")
    assert report is not None
    assert report.content == b"{}"
    assert store.answered(new_id("swp")) == []
    store.set_sweep_run(sweep.id, "1", "run")
    store.set_sweep_projected(sweep.id, "RUNNING", "two")
    assert store.sweeps_behind() == []
    store.put_interim_report(sweep.id, "three", {"json": b"{}"})
    assert store.find_report(sweep.id, "json", "three") is None
    assert [stored.superseded_at is None for stored in store.stored_reports(sweep.id)] == [False, False]
    store.set_sweep_state(fence, SweepState.FAILED)
    assert store.next_late([]) == sweep.id
    store.put_report(sweep.id, "one", contents)
    assert (store.report_digest(sweep.id), store.next_late([])) == ("one", None)
    assert [stored.digest for stored in store.stored_reports(sweep.id)] == ["one", "two"]


@pytest.mark.both_databases
def test_who_asks_for_a_new_report_is_told_until_it_is_there(store: Store) -> None:
    sweep, fence = sweeps.start(store)
    with pytest.raises(Conflict, match="RUNNING: its report is built by itself"):
        store.request_report(sweep.id)
    store.put_report(sweep.id, "one", {"json": b"{}"})
    store.set_sweep_state(fence, SweepState.FAILED)
    store.want_report(sweep.id)  # asks for an interim one, which it has no more
    assert (store.next_late([]), store.report_requested(sweep.id)) == (None, False)
    for _ in range(2):
        store.request_report(sweep.id, "ann")
    asked = [one.data for one in store.list_events(sweep.id) if one.type == "sweep.report_requested"]
    assert asked == [{"by": "ann"}]
    assert store.next_late([sweep.id]) == sweep.id
    store.set_report_failure(sweep.id, "no memory")
    assert (store.next_late([]), store.report_failure(sweep.id)) == (None, "no memory")
    store.request_report(sweep.id)
    assert (store.report_requested(sweep.id), store.report_failure(sweep.id)) == (True, None)
    store.put_report(sweep.id, "one", {"json": b"{}"})
    assert (store.next_late([]), store.report_requested(sweep.id)) == (None, False)


def test_an_archived_sweep_keeps_its_reports_and_gets_no_new_one(store: Store) -> None:
    sweep, fence = sweeps.start(store)
    for digest in ("one", "two"):
        store.put_report(sweep.id, digest, {"json": b"{}"})
    store.set_sweep_state(fence, SweepState.FAILED)
    store.request_report(sweep.id)
    store.request_deletion(sweep.id, keep_report=True)
    assert store.next_late([]) is None
    store.put_report(sweep.id, "of what is left", {"json": b"{}"})
    assert [stored.digest for stored in store.stored_reports(sweep.id)] == ["two", "one"]
    with pytest.raises(Conflict, match=r"its curves and checkpoints are gone, so nothing of it can .* be built anew"):
        store.request_report(sweep.id)
    store.request_deletion(sweep.id, keep_report=False)
    store.remove_rows(store.open_deletions()[0])
    with store.engine.connect() as connection:
        assert connection.execute(tables.reports.select()).all() == []


def test_an_interim_report_stands_while_the_sweep_runs_and_no_longer(store: Store) -> None:
    sweep, fence = sweeps.start(store)
    assert store.find_report(sweep.id, "md") is None
    store.put_interim_report(sweep.id, "one", {"md": b"first", "html": b""})
    store.put_interim_report(sweep.id, "two", {"md": b"second"})
    report = store.find_report(sweep.id, "md")
    assert report is not None
    assert (report.content, report.interim) == (b"second", True)
    assert (store.report_digest(sweep.id), store.find_report(sweep.id, "html")) == (None, None)
    with pytest.raises(NotReady):
        store.get_report(sweep.id, "md")
    store.set_sweep_state(fence, SweepState.FINALIZING)
    assert store.find_report(sweep.id, "md") is None
    store.put_report(sweep.id, "three", {"md": b"final"})
    store.put_interim_report(sweep.id, "four", {"md": b"late"})
    assert store.get_report(sweep.id, "md") == b"final"


def test_a_sweep_that_ended_with_an_interim_report_is_still_to_be_reported(store: Store) -> None:
    sweep, fence = sweeps.start(store)
    store.put_interim_report(sweep.id, "one", {"html": b""})
    store.set_sweep_projected(sweep.id, "RUNNING", None)
    assert (store.sweeps_behind(), store.next_late([])) == ([], None)
    store.set_sweep_state(fence, SweepState.FAILED, "no")
    assert (store.next_late([]), store.next_late([sweep.id])) == (sweep.id, None)


@pytest.mark.both_databases
def test_who_wants_a_report_is_told_once_of_each_running_sweep(store: Store) -> None:
    running, fence = sweeps.start(store)
    waiting = sweeps.submit(store)
    assert store.take_wanted_report([]) is None
    for sweep in (running, waiting):
        store.want_report(sweep.id)
        with writing(store.engine):
            store.want_report(sweep.id)  # once more, which waits for no writer
    assert store.take_wanted_report([running.id]) is None
    assert store.take_wanted_report([]) == running.id
    assert store.take_wanted_report([]) is None
    store.want_report(running.id)
    store.set_sweep_state(fence, SweepState.FINALIZING)
    assert store.take_wanted_report([]) is None


@pytest.mark.both_databases
def test_of_sweeps_without_a_report_the_one_that_ended_last_comes_first(store: Store) -> None:
    first, second = (sweeps.submit(store) for _ in range(2))
    for sweep in (second, first):
        store.request_cancel(sweep.id)
    assert store.next_late([]) == first.id
    assert store.next_late([first.id]) == second.id


@pytest.mark.both_databases
def test_only_a_sweep_whose_trials_are_done_is_claimed_for_its_report(store: Store) -> None:
    sweep, fence = sweeps.start(store)
    sweeps.submit(store)
    store.release_lease(fence)
    assert store.claim_final_report("test", LEASE_S) is None
    store.set_sweep_state(fence, SweepState.FINALIZING)
    claimed = store.claim_final_report("test", LEASE_S)
    assert claimed == store.get_sweep(sweep.id)
    assert store.claim_final_report("another", LEASE_S) is None
    assert store.claim("another", LEASE_S) is not None
    assert store.claim("another", LEASE_S) is None


def test_why_a_report_could_not_be_built_stands_until_there_is_one(store: Store) -> None:
    sweep, _ = sweeps.start(store)
    assert store.report_failure(sweep.id) is None
    store.set_report_failure(sweep.id, "KeyError: 'loss'")
    assert store.report_failure(sweep.id) == "KeyError: 'loss'"
    store.put_interim_report(sweep.id, "one", {"md": b""})
    assert store.report_failure(sweep.id) is None
    store.set_report_failure(sweep.id, "MemoryError")
    store.put_report(sweep.id, "two", {"md": b""})
    assert store.report_failure(sweep.id) is None


def test_a_sweep_that_waits_is_paused_at_once_and_claimed_only_after_a_resume(store: Store) -> None:
    sweep = sweeps.submit(store)
    assert {store.request_pause(sweep.id).state for _ in range(2)} == {SweepState.PAUSED}
    assert store.claim("test", LEASE_S) is None
    assert {trial.state for trial in store.list_trials(sweep.id)} == {TrialState.PENDING}
    assert {store.request_resume(sweep.id).state for _ in range(2)} == {SweepState.QUEUED}
    claimed, _ = sweeps.claimed(store)
    assert (claimed.id, claimed.desired_state) == (sweep.id, DesiredState.RUN)
    types = [event.type for event in store.list_events(sweep.id)]
    asked = ["sweep.pause_requested", "sweep.state_changed", "sweep.resume_requested", "sweep.state_changed"]
    assert types == ["sweep.created", *asked, "sweep.claimed"]


@pytest.mark.parametrize(
    ("wish", "state"),
    [("pause", SweepState.PAUSED), ("resume", SweepState.QUEUED), ("cancel", SweepState.QUEUED)],
)
def test_a_runner_that_pauses_leaves_the_state_that_is_wished_by_then(
    store: Store, wish: str, state: SweepState
) -> None:
    sweep, fence = sweeps.start(store)
    assert store.request_pause(sweep.id).state is SweepState.RUNNING
    {"pause": store.request_pause, "resume": store.request_resume, "cancel": store.request_cancel}[wish](sweep.id)
    store.set_sweep_state(fence, SweepState.PAUSED)
    assert store.get_sweep(sweep.id).state is state
    assert not any(trial.state.is_over for trial in store.list_trials(sweep.id))
    store.release_lease(fence)
    assert (store.claim("test", LEASE_S) is None) == (wish == "pause")
    assert [event.type for event in store.list_events(sweep.id)][-1 if wish == "pause" else -2] == "sweep.state_changed"


def test_a_paused_sweep_that_is_cancelled_is_left_to_a_worker(store: Store) -> None:
    sweep, fence = sweeps.start(store)
    store.request_pause(sweep.id)
    store.set_sweep_state(fence, SweepState.PAUSED)
    store.release_lease(fence)
    assert {store.request_cancel(sweep.id).state for _ in range(2)} == {SweepState.QUEUED}
    _, fence = sweeps.claimed(store, to_cancel=True)
    store.set_sweep_state(fence, SweepState.CANCELLED)
    assert {trial.state for trial in store.list_trials(sweep.id)} == {TrialState.CANCELLED}


@pytest.mark.both_databases
@pytest.mark.parametrize("verb", ["request_pause", "request_resume"])
def test_what_ends_or_has_ended_can_be_neither_paused_nor_resumed(store: Store, verb: str) -> None:
    ended, fence = sweeps.start(store)
    sweeps.finish(store, fence)
    cancelled, _ = sweeps.start(store)
    store.request_cancel(cancelled.id)
    for sweep, word in ((ended, "SUCCEEDED"), (cancelled, "is being cancelled")):
        before = store.get_sweep(sweep.id), store.last_event(sweep.id)
        with pytest.raises(Conflict, match=word):
            getattr(store, verb)(sweep.id)
        assert (store.get_sweep(sweep.id), store.last_event(sweep.id)) == before


def test_a_sweep_that_runs_is_left_alone_by_a_resume(store: Store) -> None:
    sweep, _ = sweeps.start(store)
    before = store.last_event(sweep.id)
    assert store.request_resume(sweep.id).state is SweepState.RUNNING
    assert store.last_event(sweep.id) == before


@pytest.mark.both_databases
def test_a_lease_is_had_until_it_runs_out_is_released_or_is_taken(store: Store) -> None:
    sweep, fence = sweeps.start(store)
    assert (store.has_lease(fence), store.is_held(sweep.id), store.is_held("swp_none")) == (True, True, False)
    store.renew_lease(fence, -1)
    assert (store.has_lease(fence), store.is_held(sweep.id)) == (False, False)
    store.renew_lease(fence, 60)
    store.release_lease(fence)
    assert (store.has_lease(fence), store.is_held(sweep.id)) == (False, False)
    assert store.claim("another", 60) is not None
    assert (store.has_lease(fence), store.is_held(sweep.id)) == (False, True)


def test_sweeps_that_the_caller_runs_itself_are_not_claimed(store: Store) -> None:
    first, second = (sweeps.submit(store) for _ in range(2))
    assert sweeps.claimed(store, besides=[first.id])[0].id == second.id
    assert store.claim("worker", 60, besides=[first.id]) is None
