"""Real small sweeps through the real runner, on a real Ray, with the real trainer."""

import signal
from collections.abc import Mapping
from pathlib import Path

import psutil
import pytest

from sweep_service.processes.child_processes import is_alive
from sweep_service.settings import Settings
from sweep_service.store import Store
from sweep_service.sweep.endings import Ending
from sweep_service.sweep.records import AttemptOutcome, Stage, SweepState, TrialState
from tests.slow_motion import caught_beyond
from tests.sweep_stack import SMALL_TRAINING, command_of, runner, small_sweep, submit_and_claim
from tests.waiting import PATIENT_S, wait_until


@pytest.mark.long
def test_a_proposal_and_both_stages_run_and_every_event_reaches_the_store(
    settings: Settings, store: Store, ray: Mapping[str, str]
) -> None:
    space = {"loss.beta1": {"type": "float", "low": 0.1, "high": 1}, "loss.beta2": 0}
    seeds = {"tune": [0], "confirm": {"top_k": 1, "seeds": [5]}}
    search, resources = {"strategy": "tpe", "num_configs": 1}, {"max_parallel": 1}  # one actor, used again
    raw = small_sweep("both", space=space, search=search, seeds=seeds, resources=resources)
    fence = submit_and_claim(store, raw)
    above = set[int]()
    """Processes that fork trainers."""
    with runner(settings, fence, ray) as process:
        for number in range(4):
            wait_until("a trial has its turn", lambda number=number: len(store.list_trials(fence.sweep_id)) > number)
            (trainer,) = caught_beyond(store, [store.list_trials(fence.sweep_id)[number].id], 0)
            above.add(trainer.processes[0].parents()[1].pid)  # above the trainer's keeper
            trainer.go_on()
        assert process.wait(PATIENT_S) == 0, (settings.storage / fence.sweep_id / "runner.log").read_text()
    assert len(above) == 1  # so that no trial but the first waits for torch
    assert store.get_sweep(fence.sweep_id).state is SweepState.FINALIZING
    trials = store.list_trials(fence.sweep_id)
    assert [(trial.stage, trial.state, trial.attempts) for trial in trials] == [
        (Stage.TUNE, TrialState.SUCCEEDED, 1),
        (Stage.TUNE, TrialState.SUCCEEDED, 1),
        (Stage.CONFIRM, TrialState.SUCCEEDED, 1),
        (Stage.CONFIRM, TrialState.SUCCEEDED, 1),
    ]
    baseline, proposed = store.list_configs(fence.sweep_id)
    assert baseline.params["loss.beta1"] == 0
    assert 0.1 <= proposed.params["loss.beta1"] <= 1
    assert {trial.seed for trial in trials if trial.stage is Stage.CONFIRM} == {5}
    for attempt in store.list_attempts(fence.sweep_id):
        assert attempt.events_offset == (Path(attempt.directory) / "events.jsonl").stat().st_size
        assert not is_alive(attempt.host, attempt.pid, attempt.pid_started_at)
    assert [curve.steps for curve in store.curves(fence.sweep_id, ["loss"])] == [list(range(1, 17))] * 4
    assert {path.name for path in (settings.storage / fence.sweep_id).iterdir()} == {
        "runner.log",
        *(trial.id for trial in trials),
    }


@pytest.mark.long
def test_cancel_ends_the_trainers(settings: Settings, store: Store, ray: Mapping[str, str]) -> None:
    raw = small_sweep("cancelled", training=SMALL_TRAINING | {"steps": 96000})
    fence = submit_and_claim(store, raw)
    with runner(settings, fence, ray) as process:
        wait_until("a trainer runs", lambda: any(a.pid for a in store.list_attempts(fence.sweep_id)))
        store.request_cancel(fence.sweep_id)
        assert process.wait(PATIENT_S) == 0
    assert store.get_sweep(fence.sweep_id).state is SweepState.CANCELLED
    assert {trial.state for trial in store.list_trials(fence.sweep_id)} == {TrialState.CANCELLED}
    attempts = store.list_attempts(fence.sweep_id)
    assert {attempt.outcome for attempt in attempts} == {AttemptOutcome.CANCELLED}
    assert not any(is_alive(a.host, a.pid, a.pid_started_at) for a in attempts)


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_runner_at_once_and_leaves_its_sweep_to_the_next(
    settings: Settings, store: Store, ray: Mapping[str, str], number: signal.Signals
) -> None:
    fence = submit_and_claim(store, small_sweep("signalled", training=SMALL_TRAINING | {"steps": 96000}))
    with runner(settings, fence, {**ray, "TESTS_FORKED": ""}) as process:  # a fork does not end as an interpreter does
        wait_until("a trial trains", lambda: any(trial.step for trial in store.list_trials(fence.sweep_id)))
        process.send_signal(number)
        assert process.wait(PATIENT_S) == 128 + number
        attempts = store.list_attempts(fence.sweep_id)
        wait_until("its trainers end", lambda: not any(is_alive(a.host, a.pid, a.pid_started_at) for a in attempts))
    assert store.get_sweep(fence.sweep_id).state is SweepState.RUNNING
    assert not any(trial.state.is_over for trial in store.list_trials(fence.sweep_id))


@pytest.mark.long
def test_a_hung_trainer_and_actors_that_are_killed_cost_their_trials_one_attempt_each(
    settings: Settings, store: Store, ray: Mapping[str, str]
) -> None:
    """The first trial's trainer stands still. The second's actor is killed while it moves, the third's stands still."""
    seeds, retries = {"tune": [0, 1]}, {"hung_after_minutes": 1, "max_crashes": 1}
    fence = submit_and_claim(store, small_sweep("hung", seeds=seeds, retries=retries))
    first, second, third, fourth = store.list_trials(fence.sweep_id)
    with runner(settings, fence, ray) as process:
        caught_beyond(store, [first.id], 0)
        for trial, stopped in ((second, False), (third, True)):
            (trainer,) = caught_beyond(store, [trial.id], 0)
            words = f"ray::trial-{fence.sweep_id}"
            actor = next(one for one in psutil.process_iter() if words in " ".join(command_of(one)))
            if stopped:
                actor.suspend()
            trainer.go_on()
            actor.kill()
        assert process.wait(PATIENT_S) == 0
    assert {trial.state for trial in store.list_trials(fence.sweep_id)} == {TrialState.SUCCEEDED}
    endings = {trial.id: store.attempts_of(trial.id)[0] for trial in (first, second, third, fourth)}
    assert [attempt.ending for attempt in endings.values()] == [
        Ending.HUNG,
        Ending.LOST,
        Ending.LOST,
        Ending.SUCCEEDED,
    ]
    assert [len(store.attempts_of(id_)) for id_ in endings] == [2, 2, 2, 1]
    assert "set retries.hung_after_minutes higher" in (endings[first.id].message or "")
    assert "actor" in (endings[second.id].message or "")


def test_a_runner_without_a_lease_changes_nothing(settings: Settings, store: Store, ray: Mapping[str, str]) -> None:
    fence = submit_and_claim(store, small_sweep("stale"))
    store.release_lease(fence)
    taken_over = store.claim("another", 60)
    assert taken_over is not None
    with runner(settings, fence, ray) as process:
        assert process.wait(PATIENT_S) == 3
    assert store.get_sweep(fence.sweep_id).state is SweepState.QUEUED
    assert store.list_attempts(fence.sweep_id) == []
