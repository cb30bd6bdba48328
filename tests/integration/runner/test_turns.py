"""Two sweeps on one slot take turns to the end: none keeps an idle actor on it, and a long trial is paused."""

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

import pytest

from sweep_service.settings import Settings
from sweep_service.store import Store
from sweep_service.sweep.records import AttemptOutcome, SweepState, TrialState
from tests.slow_motion import caught_beyond
from tests.sweep_stack import SMALL_TRAINING, runner, small_sweep, submit_and_claim
from tests.waiting import PATIENT_S

ONE_SLOT = {"cpus": 1.5}
"""Of Ray's two CPUs, for one thread of torch: two would wait for each other where other tests use the cores, too."""


@pytest.mark.long
def test_two_sweeps_take_turns_on_one_slot(settings: Settings, store: Store, ray: Mapping[str, str]) -> None:
    changes = {"resources": ONE_SLOT, "seeds": {"tune": [0, 1]}}
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


@pytest.mark.long
def test_a_long_trial_is_paused_for_a_new_sweep_and_ends_as_undisturbed(
    settings: Settings, store: Store, ray: Mapping[str, str]
) -> None:
    one_slot: dict[str, Any] = {"resources": ONE_SLOT, "space": {"loss.beta1": 0, "loss.beta2": 0}}
    training = SMALL_TRAINING | {"steps": 48, "checkpoint_every_rollouts": 1000}
    alone = submit_and_claim(store, small_sweep("alone", training=training, **one_slot))
    with runner(settings, alone, ray) as process:
        assert process.wait(PATIENT_S) == 0
    store.set_sweep_state(alone, SweepState.SUCCEEDED)
    store.release_lease(alone)

    short_turns = settings.model_copy(update={"turn_minutes": 0.01})
    long = submit_and_claim(store, small_sweep("long", training=training, **one_slot))
    with runner(short_turns, long, ray) as process:
        (trainer,) = caught_beyond(store, [trial.id for trial in store.list_trials(long.sweep_id)], 20)
        new = submit_and_claim(store, small_sweep("new", **one_slot))
        with runner(short_turns, new, ray) as other:
            trainer.go_on_once_told_to_stop()
            assert other.wait(PATIENT_S) == 0
        assert process.wait(PATIENT_S) == 0
    attempts = store.list_attempts(long.sweep_id)
    assert [attempt.outcome for attempt in attempts] == [AttemptOutcome.PAUSED, AttemptOutcome.SUCCEEDED]
    assert attempts[0].message == "it has saved and waits, because it is the turn of sweep new"
    (between,) = store.list_attempts(new.sweep_id)
    assert (attempts[0].ended_at or 0) <= between.started_at <= attempts[1].started_at
    keys = ["loss", "entropy/mean", "eval/avg_at_k"]
    disturbed, undisturbed = (
        [(curve.key, curve.steps, curve.values) for curve in store.curves(fence.sweep_id, keys)]
        for fence in (long, alone)
    )
    assert disturbed == undisturbed
