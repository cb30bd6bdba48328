"""What users wish of a sweep, as its runner hears it."""

from types import SimpleNamespace

import pytest

from sweep_service.runner.wishes import Halt, Interruption, Wishes
from sweep_service.store import Store
from sweep_service.sweep.endings import Ending
from sweep_service.sweep.records import DesiredState, Judgement, SweepState
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
    assert (wishes.interruption.halt.ending, wishes.interruption.state) == (Ending.CANCELLED, SweepState.CANCELLED)
    withdrawn = store.get_sweep(sweep.id).model_copy(update={"desired_state": DesiredState.RUN})
    monkeypatch.setattr(store, "get_sweep", lambda _: withdrawn)
    now += 5
    assert wishes.interruption is not None


def test_one_trial_is_halted_alone_unless_its_sweep_is(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sweep_service.runner.wishes.READ_EVERY_S", -1.0)
    sweep, _ = start(store)
    wishes = Wishes(store, sweep.id)
    kept, dropped, other = (trial.id for trial in store.list_trials(sweep.id)[:3])
    store.request_stop(kept, counts=True)
    store.request_stop(dropped, counts=False)
    halts = [wishes.halt(id_) for id_ in (kept, dropped, other)]
    assert halts == [Halt(Ending.STOPPED, 600.0), Halt(Ending.DISCARDED, 600.0), None]
    assert (wishes.interruption, wishes.some_end) == (None, True)
    wishes.yielding.update({other: "it yields", dropped: "it yields"})
    assert wishes.halt(other) == Halt(Ending.PAUSED, 600.0, "it yields")
    assert wishes.halt(dropped) == Halt(Ending.DISCARDED, 600.0)
    store.request_pause(sweep.id)
    assert wishes.halt(other) == Halt(Ending.PAUSED, 600.0)
    store.request_cancel(sweep.id)
    assert wishes.halt(kept) == Halt(Ending.CANCELLED, 0.0)


def test_a_trial_of_a_dropped_config_is_halted_with_the_reason(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sweep_service.runner.wishes.READ_EVERY_S", -1.0)
    sweep, fence = start(store, early_stopping="asha", baselines={})
    wishes = Wishes(store, sweep.id)
    first, second, *_ = store.list_trials(sweep.id)
    for trial in (first, second):
        store.start_attempt(fence, trial.id, "/data/{attempt}")
    said = {"dropped": True, "seed": 0, "mark": 4, "value": 0.1, "bound": 0.5, "message": "it is the worst"}
    store.judge(fence, [Judgement(config_id=second.config_id, **said)])
    assert [wishes.halt(one.id) for one in (first, second)] == [
        None,
        Halt(Ending.EARLY_STOPPED, 600.0, "it is the worst"),
    ]
    assert wishes.some_end
    store.request_stop(second.id, counts=True)
    assert wishes.halt(second.id) == Halt(Ending.STOPPED, 600.0), "a person's word counts more"


def test_a_pause_is_kept_until_a_cancel_takes_its_place(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sweep_service.runner.wishes.READ_EVERY_S", -1.0)
    sweep, _ = start(store)
    wishes = Wishes(store, sweep.id)
    store.request_pause(sweep.id)
    pause = wishes.interruption
    assert pause is not None
    assert pause == Interruption(Halt(Ending.PAUSED, 600), SweepState.PAUSED)
    store.request_resume(sweep.id)
    assert wishes.interruption == pause  # its trainers end already
    store.request_cancel(sweep.id)
    assert wishes.interruption == Interruption(Halt(Ending.CANCELLED, 0), SweepState.CANCELLED)


def test_a_trial_that_yields_is_to_end(store: Store) -> None:
    sweep, _ = start(store)
    wishes = Wishes(store, sweep.id)
    assert not wishes.some_end
    wishes.yielding["trl_1"] = "it yields"
    assert wishes.some_end
