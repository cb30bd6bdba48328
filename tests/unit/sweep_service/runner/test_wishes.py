"""What users wish of a sweep, as its runner hears it."""

from types import SimpleNamespace

import pytest

from sweep_service.runner.wishes import Wishes
from sweep_service.store import Store
from sweep_service.sweep.endings import Ending
from sweep_service.sweep.records import DesiredState, SweepState
from tests.stored_sweeps import start


def test_a_wish_is_heard_within_a_second_and_kept(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    clock = SimpleNamespace(monotonic=lambda: now)  # the event loops of other threads keep the real one
    monkeypatch.setattr("sweep_service.runner.wishes.time", clock)
    sweep, _ = start(store)
    wishes = Wishes(store, sweep.id)
    assert wishes.interruption is None
    store.request_cancel(sweep.id)
    now += 0.5
    assert wishes.interruption is None  # the store is read once a second
    now += 0.6
    assert wishes.interruption is not None
    assert (wishes.interruption.ending, wishes.interruption.state) == (Ending.CANCELLED, SweepState.CANCELLED)
    withdrawn = store.get_sweep(sweep.id).model_copy(update={"desired_state": DesiredState.RUN})
    monkeypatch.setattr(store, "get_sweep", lambda _: withdrawn)
    now += 5
    assert wishes.interruption is not None
    assert wishes.interruption is not None
