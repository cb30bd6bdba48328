"""A sweep's turn among the others, as its runner asks for it: no Ray, a real store."""

import time
from collections.abc import Callable, Sequence
from types import SimpleNamespace

import pytest

from sweep_service.runner import turns as turns_module
from sweep_service.runner.turns import GIVE_WAY_AFTER_S, Turns
from sweep_service.store import Fence, Store
from sweep_service.sweep.records import TrialState
from sweep_service.sweep.shares import Node, Part
from tests.stored_sweeps import start, submit

ONE = Part(1, 0)
TWO_CPUS: list[Node] = [{"CPU": 2.0}]


class Clock:
    """A clock that moves when a test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        fake = SimpleNamespace(monotonic=lambda: self.now, time=time.time)
        monkeypatch.setattr(turns_module, "time", fake)


def turns_of(
    store: Store, fence: Fence, nodes: Sequence[Node] = TWO_CPUS, give_way: Callable[[], None] = lambda: None
) -> Turns:
    return Turns(store, fence, lambda: nodes, give_way)


def fill(store: Store, fence: Fence) -> None:
    """Let trials of a sweep take both CPUs."""
    for trial in store.list_trials(fence.sweep_id, states=[TrialState.PENDING])[:2]:
        attempt = turns_of(store, fence).begin(trial.id, "/data/{attempt}", ONE, alone=False)
        assert attempt is not None
        store.set_held(fence, attempt, 1.0)


def waiting_behind_another(store: Store) -> Fence:
    """Return the fence of a sweep that has begun, and for whose next trial a busy one leaves no slot."""
    _, busy = start(store, name="busy")
    fill(store, busy)
    _, waiting = start(store, name="waiting")
    attempt = store.start_attempt(waiting, store.list_trials(waiting.sweep_id)[0].id, "/data/{attempt}")
    store.set_held(waiting, attempt, 1.0)
    return waiting


def test_a_runner_that_waits_gives_way_to_a_sweep_that_has_none_after_a_while(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, gone = Clock(monkeypatch), list[float]()
    waiting = waiting_behind_another(store)
    turns = turns_of(store, waiting, give_way=lambda: gone.append(clock.now))
    large = submit(store, name="large", resources={"cpus": 3})
    assert not turns.could_begin(ONE)
    clock.now += GIVE_WAY_AFTER_S + 1
    assert not turns.could_begin(ONE)
    assert gone == []  # no node has room for what waits
    store.request_cancel(large.id)
    submit(store, name="small")
    assert not turns.could_begin(ONE)
    assert gone == [clock.now]
    (share,) = (share for share in store.shares() if share.name == "waiting")
    assert share.waits_for is None  # its wish would keep the slot from others


def test_a_runner_gives_way_not_before_it_has_waited(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, gone = Clock(monkeypatch), list[float]()
    waiting = waiting_behind_another(store)
    turns = turns_of(store, waiting, give_way=lambda: gone.append(clock.now))
    submit(store, name="small")
    for _ in range(int(GIVE_WAY_AFTER_S)):
        assert not turns.could_begin(ONE)
        clock.now += 0.9
    assert gone == []


def test_without_a_lease_nobody_waits_nor_fails(store: Store) -> None:
    fence = waiting_behind_another(store)
    turns = turns_of(store, fence)
    store.renew_lease(fence, -1)
    assert not turns.could_begin(ONE)
    assert turns.delay is None


def test_who_wants_nothing_any_more_keeps_no_slot(store: Store) -> None:
    fence = waiting_behind_another(store)
    turns = turns_of(store, fence)
    assert not turns.could_begin(ONE)
    turns.withdraw()
    assert [share.waits_for for share in store.shares()] == [None, None]


def test_nodes_are_counted_against_the_slots_at_times_only(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    _, busy = start(store, name="busy")
    fill(store, busy)
    turns = turns_of(store, busy, nodes=[{"CPU": 1.0}])
    assert turns.is_overdrawn()
    assert not turns.is_overdrawn()
    clock.now += turns_module.YIELD_EVERY_S
    assert turns.is_overdrawn()
