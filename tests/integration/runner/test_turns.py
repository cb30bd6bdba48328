"""Two sweeps on one slot: they take turns to the end, and none keeps an idle actor on the slot."""

from collections.abc import Mapping
from contextlib import ExitStack

import pytest

from sweep_service.settings import Settings
from sweep_service.store import Store
from sweep_service.sweep.records import SweepState, TrialState
from tests.sweep_stack import runner, small_sweep, submit_and_claim
from tests.waiting import PATIENT_S


@pytest.mark.long
def test_two_sweeps_take_turns_on_one_slot(settings: Settings, store: Store, ray: Mapping[str, str]) -> None:
    changes = {"resources": {"cpus": 2}, "seeds": {"tune": [0, 1, 2]}}  # one slot
    fences = [submit_and_claim(store, small_sweep(name, **changes)) for name in ("first", "second")]
    with ExitStack() as runners:
        processes = [runners.enter_context(runner(settings, fence, ray)) for fence in fences]
        assert [process.wait(PATIENT_S) for process in processes] == [0, 0]
    begun = list[tuple[float, int]]()
    for place, fence in enumerate(fences):
        assert store.get_sweep(fence.sweep_id).state is SweepState.FINALIZING
        trials = store.list_trials(fence.sweep_id)
        assert {(trial.state, trial.attempts) for trial in trials} == {(TrialState.SUCCEEDED, 1)}
        begun += [(attempt.started_at, place) for attempt in store.list_attempts(fence.sweep_id)]
    order = [place for _, place in sorted(begun)]
    assert order != sorted(order, reverse=order[0] == 1), "one ran to its end before the other began"
