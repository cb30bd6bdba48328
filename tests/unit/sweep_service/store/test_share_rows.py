"""What sweeps hold of a cluster and wait for, and turns that are decided inside a transaction."""

from collections.abc import Sequence

from sweep_service.store import Fence, Store
from sweep_service.sweep.endings import Ending
from sweep_service.sweep.records import Attempt, Sweep, SweepState, TrialState
from sweep_service.sweep.shares import Node, Part, Share, is_turn_of
from tests import stored_sweeps as sweeps
from tests.unit.sweep_service.store.test_sweep_rows import in_threads

ONE = Part(1, 0)
TWO_SLOTS: list[Node] = [{"CPU": 2.0}]


def begin(store: Store, fence: Fence, nodes: Sequence[Node] = TWO_SLOTS) -> Attempt | None:
    """Ask for a slot for the sweep's next trial."""
    trial = store.list_trials(fence.sweep_id, states=[TrialState.PENDING])[0]
    return store.start_in_turn(
        fence, trial.id, "/data/{attempt}", ONE, lambda shares: is_turn_of(fence.sweep_id, shares, nodes)
    )


def by_name(shares: list[Share]) -> dict[str, Share]:
    return {share.name: share for share in shares}


def started(store: Store, name: str) -> tuple[Sweep, Fence]:
    return sweeps.start(store, name=name)


def test_a_sweep_that_is_refused_waits_and_goes_before_who_holds_more(store: Store) -> None:
    (_, first), (_, second) = started(store, "first"), started(store, "second")
    held = [begin(store, first) for _ in range(2)]
    assert None not in held
    assert begin(store, second) is None
    shares = by_name(store.wait_in_turn(first, ONE))
    assert (shares["first"].held, shares["first"].waits_for) == ((ONE, ONE), ONE)
    assert (shares["second"].held, shares["second"].waits_for) == ((), ONE)
    assert held[0] is not None
    store.finish_attempt(first, held[0], Ending.SUCCEEDED, None, max_crashes=0)
    assert begin(store, first) is None  # it is the other one's turn
    assert begin(store, second) is not None
    assert by_name(store.wait_in_turn(first, None))["second"].waits_for is None


def test_what_was_held_counts_and_what_holds_no_lease_does_not(store: Store) -> None:
    sweep, fence = started(store, "first")
    attempt = begin(store, fence)
    assert attempt is not None
    store.set_held(fence, attempt, 12.5)
    (share,) = store.wait_in_turn(fence, None)
    assert (share.sweep_id, share.used_s, store.unclaimed()) == (sweep.id, 12.5, [])
    store.release_lease(fence)
    (waiting,) = store.unclaimed()
    assert (waiting.sweep_id, waiting.used_s) == (sweep.id, 12.5)
    _, other = started_after(store, "second")
    assert [share.name for share in store.wait_in_turn(other, None)] == ["second"]


def started_after(store: Store, name: str) -> tuple[Sweep, Fence]:
    """Store a sweep and take it over; it goes before an older one whose trials have run."""
    submitted = sweeps.submit(store, name=name)
    claimed = store.claim("test", 3600)
    assert claimed is not None
    assert claimed.id == submitted.id
    fence = Fence(claimed.id, claimed.epoch)
    store.set_sweep_state(fence, SweepState.RUNNING)
    return claimed, fence


def test_a_paused_sweep_neither_holds_nor_waits(store: Store) -> None:
    sweep, fence = started(store, "first")
    store.request_pause(sweep.id)
    assert by_name(store.wait_in_turn(fence, None)).keys() == {"first"}
    store.set_sweep_state(fence, SweepState.PAUSED)
    store.release_lease(fence)
    assert store.unclaimed() == []


def test_of_sweeps_that_ask_at_once_no_more_begin_than_there_are_slots(store: Store) -> None:
    for _ in range(5):
        fences = [started(store, f"sweep-{number}")[1] for number in range(6)]
        began = in_threads(6, lambda index, fences=fences: begin(store, fences[index]))
        assert sum(attempt is not None for attempt in began) == 2
        for fence in fences:
            store.set_sweep_state(fence, SweepState.CANCELLED)
