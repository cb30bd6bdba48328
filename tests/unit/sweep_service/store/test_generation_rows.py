"""Sweeps that are given more to do."""

import time

import pytest

from sweep_service.errors import Conflict
from sweep_service.intake.spec_check import parse_spec
from sweep_service.store import Store
from sweep_service.sweep.endings import Ending
from sweep_service.sweep.extension import Extension, extended
from sweep_service.sweep.records import SweepState, TrialState
from tests import stored_sweeps as sweeps


@pytest.mark.both_databases
def test_a_failed_trial_waits_again_and_its_crashes_are_forgiven(store: Store) -> None:
    sweep, fence = sweeps.start(store)
    trial, *others = store.list_trials(sweep.id)
    states = [sweeps.one_attempt(store, fence, trial.id, Ending.CRASHED, max_crashes=1) for _ in range(2)]
    assert states == [TrialState.PENDING, TrialState.FAILED]
    for other in others:
        sweeps.run_trial(store, fence, other)
    sweeps.finish(store, fence)
    ended = store.get_sweep(sweep.id)
    opened = store.give_more(ended, ended.spec, [trial.id], "sweep.trials_retried", {"trials": [trial.id]})
    assert (opened.state, opened.generation, opened.ended_at) == (SweepState.QUEUED, 1, None)
    waiting = store.get_trial(trial.id)
    assert (waiting.state, waiting.message, waiting.ended_at, waiting.attempts) == (TrialState.PENDING, None, None, 2)
    store.release_lease(fence)
    _, fence = sweeps.claimed(store)
    state = sweeps.one_attempt(store, fence, trial.id, Ending.CRASHED, max_crashes=1)
    assert state is TrialState.PENDING  # one crash of a new count
    assert [event.type for event in store.list_events(sweep.id)].count("sweep.trials_retried") == 1


def test_a_runner_that_was_done_before_the_extension_leaves_the_sweep_to_the_next_one(store: Store) -> None:
    sweep, fence = sweeps.start(store)
    store.give_more(sweep, sweep.spec, [], "sweep.extended", {})
    store.set_sweep_state(fence, SweepState.FINALIZING, "done", generation=0)
    assert (store.get_sweep(sweep.id).state, store.get_sweep(sweep.id).message) == (SweepState.QUEUED, None)
    assert not any(trial.state.is_over for trial in store.list_trials(sweep.id))
    store.set_sweep_state(fence, SweepState.RUNNING)
    store.set_sweep_state(fence, SweepState.FINALIZING, "done", generation=1)
    assert store.get_sweep(sweep.id).state is SweepState.FINALIZING


@pytest.mark.both_databases
def test_what_has_changed_since_it_was_read_is_not_extended(store: Store) -> None:
    sweep, _ = sweeps.start(store)
    more, other = (
        parse_spec(extended(sweep.spec, Extension.model_validate({"seeds": {"tune": [0, 1, seed]}}))) for seed in (2, 3)
    )
    store.give_more(sweep, more, [], "sweep.extended", {})
    with pytest.raises(Conflict, match="changed in this moment"):
        store.give_more(sweep, other, [], "sweep.extended", {})
    present = store.get_sweep(sweep.id)
    assert (present.spec, present.generation) == (more, 1)
    store.give_more(present, more, [], "sweep.trials_retried", {})  # which leaves the spec as it is
    with pytest.raises(Conflict, match="changed in this moment"):
        store.give_more(present, other, [], "sweep.extended", {})
    present = store.get_sweep(sweep.id)
    store.request_pause(sweep.id)
    with pytest.raises(Conflict, match="changed in this moment"):
        store.give_more(present, other, [], "sweep.extended", {})


def test_an_extended_sweep_asks_for_slots_from_then_on(store: Store) -> None:
    sweep, fence = sweeps.start(store)
    sweeps.finish(store, fence)
    store.release_lease(fence)
    now, ended = time.time(), store.get_sweep(sweep.id)
    store.give_more(ended, ended.spec, [], "sweep.extended", {})
    assert [share.asks_since >= now for share in store.unclaimed()] == [True]


def test_runs_are_named_anew_once_a_parameter_that_was_fixed_is_swept(store: Store) -> None:
    sweep, _ = sweeps.start(store)
    for space, anew in (({"loss.beta1": [0, 0.5, 1]}, []), ({"loss.beta2": [1, 0]}, [sweep.id])):
        present = store.get_sweep(sweep.id)
        spec = parse_spec(extended(present.spec, Extension.model_validate({"space": space})))
        store.give_more(present, spec, [], "sweep.extended", {})
        assert store.projections_requested() == anew
