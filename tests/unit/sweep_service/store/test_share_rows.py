"""What sweeps hold of a cluster and wait for, and turns that are decided inside a transaction."""

import time
from collections.abc import Sequence

import pytest

from sweep_service.store import Fence, Store
from sweep_service.sweep.endings import Ending
from sweep_service.sweep.plan import stage_counts
from sweep_service.sweep.records import Attempt, ProbeState, SweepState, TrialState
from sweep_service.sweep.shares import Node, Part, Share, is_turn_of
from tests import stored_sweeps as sweeps
from tests.waiting import in_threads

ONE = Part(1, 0)
TWO_SLOTS: list[Node] = [{"CPU": 2.0}]


def begin(store: Store, fence: Fence, nodes: Sequence[Node] = TWO_SLOTS) -> Attempt | None:
    """Ask for a slot for the sweep's next trial."""
    trial = store.list_trials(fence.sweep_id, states=[TrialState.PENDING])[0]
    return store.start_in_turn(
        fence, trial.id, "/data/{attempt}", ONE, 2, lambda shares: is_turn_of(fence.sweep_id, shares, nodes)
    )


def begun(store: Store, fence: Fence) -> Attempt:
    """Begin the sweep's next trial, whose turn it is."""
    attempt = begin(store, fence)
    assert attempt is not None
    return attempt


def by_name(shares: list[Share]) -> dict[str, Share]:
    return {share.name: share for share in shares}


def test_a_sweep_that_is_refused_waits_and_goes_before_who_holds_more(store: Store) -> None:
    (_, first), (_, second) = sweeps.start(store, name="first"), sweeps.start(store, name="second")
    held = [begun(store, first) for _ in range(2)]
    assert begin(store, second) is None
    shares = by_name(store.wait_in_turn(first, ONE))
    assert (shares["first"].held, shares["first"].waits_for) == ((ONE, ONE), ONE)
    assert (shares["second"].held, shares["second"].waits_for) == ((), ONE)
    store.finish_attempt(first, held[0], Ending.SUCCEEDED, None, max_crashes=0)
    assert begin(store, first) is None  # it is the other one's turn
    assert begin(store, second) is not None
    assert by_name(store.wait_in_turn(first, None))["second"].waits_for is None


@pytest.mark.both_databases
def test_what_was_held_counts_and_what_holds_no_lease_does_not(store: Store) -> None:
    sweep, fence = sweeps.start(store, name="first")
    attempt = begun(store, fence)
    store.set_held(fence, attempt, 12.5)
    (share,) = store.wait_in_turn(fence, None)
    assert (share.sweep_id, share.done_s, store.unclaimed()) == (sweep.id, 12.5, [])
    assert store.shares()[0].held == (ONE,)
    store.release_lease(fence)
    (waiting,) = store.unclaimed()
    assert (waiting.sweep_id, waiting.done_s) == (sweep.id, 12.5)
    _, other = sweeps.start(store, name="second")  # it goes before an older one whose trials have run
    assert [share.name for share in store.wait_in_turn(other, None)] == ["second"]


def train(store: Store, fence: Fence, attempt: Attempt, steps: int, held_s: float) -> None:
    """Let an attempt report updates and the seconds for which it has held its part."""
    store.ingest(fence, attempt, 0, steps, list(sweeps.training_events(1, steps)))
    store.set_held(fence, attempt, held_s)


@pytest.mark.both_databases
def test_what_is_left_is_told_by_the_seconds_of_an_update(store: Store) -> None:
    seeds = {"tune": [0, 1], "confirm": {"top_k": 1, "seeds": [5, 6]}}
    sweep, fence = sweeps.start(store, seeds=seeds)
    attempt = begun(store, fence)
    (share,) = store.shares()
    assert (share.left_s, share.slots) == (None, 2)
    assert share.asked_s == pytest.approx(time.time() - sweep.created_at, abs=5)
    train(store, fence, attempt, 8, held_s=20)
    (share,) = store.shares()
    steps = sum(stage_counts(sweep.spec)) * 16  # also of trials that are not there yet
    assert share.left_s == pytest.approx((steps - 8) * 2.5)
    assert len(store.list_trials(sweep.id)) < sum(stage_counts(sweep.spec))
    store.finish_attempt(fence, attempt, Ending.DIVERGED, None, max_crashes=0)
    assert store.shares()[0].left_s == pytest.approx((steps - 16) * 2.5)


def test_a_sweep_could_use_no_more_slots_than_max_parallel_and_than_it_has_trials(store: Store) -> None:
    _, fence = sweeps.start(store, resources={"max_parallel": 3})
    assert [store.wait_in_turn(fence, ONE, slots)[0].slots for slots in (2, 8)] == [2, 3]
    store.set_sweep_state(fence, SweepState.CANCELLED)
    sweep, fence = sweeps.start(store, seeds={"tune": [0]})
    assert store.wait_in_turn(fence, ONE, 64)[0].slots == sum(stage_counts(sweep.spec))


def test_a_paused_sweep_neither_holds_nor_waits_and_asks_from_when_it_goes_on(store: Store) -> None:
    sweep, fence = sweeps.start(store, name="first")
    attempt = begun(store, fence)
    store.set_held(fence, attempt, 30)
    store.finish_attempt(fence, attempt, Ending.PAUSED, None, max_crashes=0)
    store.request_pause(sweep.id)
    assert by_name(store.wait_in_turn(fence, None)).keys() == {"first"}
    store.set_sweep_state(fence, SweepState.PAUSED)
    store.release_lease(fence)
    assert store.unclaimed() == []
    resumed_at = time.time()
    store.request_resume(sweep.id)
    (share,) = store.unclaimed()
    assert (share.done_s, share.has_begun) == (0, False)
    assert resumed_at <= share.asks_since <= time.time()


def test_a_runner_is_for_the_sweep_whose_turn_it_is(store: Store) -> None:
    fences = dict[str, Fence]()
    for name, steps, held_s in [("short", 12, 12.0), ("long", 4, 40.0)]:
        _, fences[name] = sweeps.start(store, name=name)
        attempt = begun(store, fences[name])
        train(store, fences[name], attempt, steps, held_s)
        store.finish_attempt(fences[name], attempt, Ending.PAUSED, None, max_crashes=0)
    for fence in fences.values():
        store.release_lease(fence)
    short, long = (by_name(store.unclaimed())[name] for name in ("short", "long"))
    assert short.slowdown > long.slowdown  # both have waited since the same time
    new = [sweeps.submit(store, name=name).id for name in ("new", "newer")]
    assert [sweeps.claimed(store)[0].id for _ in new] == new
    assert sweeps.claimed(store)[0].name == "short"


@pytest.mark.both_databases
def test_of_sweeps_that_ask_at_once_no_more_begin_than_there_are_slots(store: Store) -> None:
    for _ in range(2):
        fences = [sweeps.start(store, name=f"sweep-{number}")[1] for number in range(6)]
        began = in_threads(6, lambda index, fences=fences: begin(store, fences[index]))
        assert sum(attempt is not None for attempt in began) == 2
        for fence in fences:
            store.set_sweep_state(fence, SweepState.CANCELLED)


def test_before_the_first_update_trials_take_as_long_as_those_that_have_begun(store: Store) -> None:
    sweep, fence = sweeps.start(store, seeds={"tune": [0, 1]})
    attempt = begun(store, fence)
    store.set_held(fence, attempt, 30)
    store.finish_attempt(fence, attempt, Ending.PAUSED, None, max_crashes=0)
    (share,) = store.shares()
    assert share.left_s == pytest.approx(30 * sum(stage_counts(sweep.spec)) - 30)
    assert share.slowdown > 1  # it has waited since 2023, and not for ever last


def test_a_new_runner_waits_for_nothing_yet(store: Store) -> None:
    sweep, fence = sweeps.start(store, name="first")
    store.wait_in_turn(fence, ONE)
    store.release_lease(fence)
    sweeps.claimed(store)
    (share,) = store.shares()
    assert (share.sweep_id, share.waits_for, share.claims) == (sweep.id, None, 2)


def test_sweeps_that_lack_a_node_get_a_runner_last(store: Store) -> None:
    for name in ("large", "larger"):
        _, fence = sweeps.start(store, name=name)
        assert store.wait_in_turn(fence, None, slots=0)[-1].lacks_node
        store.release_lease(fence)
        store.claim("test", 3600)
        if name == "large":
            store.release_lease(Fence(fence.sweep_id, 2))
    sweeps.submit(store, name="small")
    assert [sweeps.claimed(store)[0].name for _ in range(2)] == ["small", "large"]
    assert not by_name(store.shares())["small"].lacks_node


def test_a_sweep_to_be_cancelled_gets_a_runner_first(store: Store) -> None:
    _, fence = sweeps.start(store, name="old")
    store.wait_in_turn(fence, None, slots=0)
    store.release_lease(fence)
    sweeps.submit(store, name="new")
    store.request_cancel(fence.sweep_id)
    assert sweeps.claimed(store)[0].name == "old"


@pytest.mark.both_databases
def test_a_sweep_has_its_turn_while_another_process_writes_to_mlflow(store: Store) -> None:
    _, fence = sweeps.start(store)
    with store.projecting() as mine:
        assert mine
        assert begin(store, fence) is not None


@pytest.mark.both_databases
def test_a_probe_and_evaluations_hold_their_own_parts(store: Store) -> None:
    benchmarks = {"names": ["arithmetic"], "of": "all", "samples": 3, "resources": {"cpus": 3}}
    _, fence = sweeps.start(store, benchmarks=benchmarks, seeds={"tune": [0]}, resources={"cpus": 2})
    probe = store.start_probe(fence, "shape", "CPU", {"steps": 3}, 0.0)
    assert store.shares()[0].held == (Part(2, 0),)
    store.finish_probe(fence, probe, ProbeState.FAILED, 1.0, message="it failed")
    for trial in store.list_trials(fence.sweep_id):
        sweeps.run_trial(store, fence, trial)
    evaluation = sweeps.add_missing_evaluations(store, fence)[0]
    store.start_attempt(fence, evaluation.id, "/data/{attempt}")
    assert store.shares()[0].held == (Part(3, 0),)
