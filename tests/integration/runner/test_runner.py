"""Real small sweeps through the real runner, on a real Ray, with the real trainer."""

import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from sweep_service.processes.child_processes import is_alive
from sweep_service.settings import Settings
from sweep_service.store import Store
from sweep_service.sweep.endings import Ending
from sweep_service.sweep.records import AttemptOutcome, Stage, SweepState, TrialState
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

    def ended() -> bool:
        for attempt in store.list_attempts(fence.sweep_id):
            with suppress(psutil.Error):
                if attempt.pid is not None:
                    above.add(psutil.Process(attempt.pid).ppid())
        return process.poll() is not None

    with runner(settings, fence, ray) as process:
        wait_until("the runner has ended", ended)
        assert process.returncode == 0, (settings.storage / fence.sweep_id / "runner.log").read_text()
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
    with runner(settings, fence, ray) as process:
        wait_until("a trial trains", lambda: any(trial.step for trial in store.list_trials(fence.sweep_id)))
        process.send_signal(number)
        assert process.wait(PATIENT_S) == 128 + number
        attempts = store.list_attempts(fence.sweep_id)
        wait_until("its trainers end", lambda: not any(is_alive(a.host, a.pid, a.pid_started_at) for a in attempts))
    assert store.get_sweep(fence.sweep_id).state is SweepState.RUNNING
    assert not any(trial.state.is_over for trial in store.list_trials(fence.sweep_id))


@pytest.mark.long
def test_a_trainer_that_stands_still_is_killed_and_its_trial_goes_on(
    settings: Settings, store: Store, ray: Mapping[str, str]
) -> None:
    raw = small_sweep("hung", training=SMALL_TRAINING | {"steps": 800}, retries={"hung_after_minutes": 1})
    fence = submit_and_claim(store, raw)
    with runner(settings, fence, ray) as process:
        wait_until("a trial trains", lambda: any(trial.step for trial in store.list_trials(fence.sweep_id)))
        training = {trial.id for trial in store.list_trials(fence.sweep_id) if trial.step}
        (victim, *_) = [attempt for attempt in store.list_attempts(fence.sweep_id) if attempt.trial_id in training]
        assert victim.pid is not None
        os.kill(victim.pid, signal.SIGSTOP)
        assert process.wait(PATIENT_S) == 0
    attempts = store.list_attempts(fence.sweep_id)
    (hung,) = [
        attempt for attempt in attempts if (attempt.trial_id, attempt.number) == (victim.trial_id, victim.number)
    ]
    others = [attempt for attempt in attempts if attempt != hung]
    assert (hung.outcome, hung.ending) == (AttemptOutcome.CRASHED, Ending.HUNG)
    assert "set retries.hung_after_minutes higher" in (hung.message or "")
    assert {other.outcome for other in others} == {AttemptOutcome.SUCCEEDED}
    assert {trial.state for trial in store.list_trials(fence.sweep_id)} == {TrialState.SUCCEEDED}


@pytest.mark.long
@pytest.mark.parametrize("stopped", [False, True])
def test_an_actor_that_is_killed_costs_its_trial_no_crash(
    settings: Settings, store: Store, ray: Mapping[str, str], stopped: bool
) -> None:
    """Whether the actor moved or stood still when it was killed, as a runner kills one that hangs."""
    raw = small_sweep("actor", training=SMALL_TRAINING | {"steps": 800}, retries={"max_crashes": 0})
    fence = submit_and_claim(store, raw)
    with runner(settings, fence, ray) as process:
        wait_until("a trial trains", lambda: any(trial.step for trial in store.list_trials(fence.sweep_id)))
        words = f"ray::trial-{fence.sweep_id}"
        actor = next(one for one in psutil.process_iter() if words in " ".join(command_of(one)))
        if stopped:
            actor.suspend()
        actor.kill()
        assert process.wait(PATIENT_S) == 0
    attempts = store.list_attempts(fence.sweep_id)
    (lost,) = [attempt for attempt in attempts if attempt.outcome is not AttemptOutcome.SUCCEEDED]
    assert (lost.outcome, lost.ending) == (AttemptOutcome.LOST, Ending.LOST)
    assert "actor" in (lost.message or "")
    assert {trial.state for trial in store.list_trials(fence.sweep_id)} == {TrialState.SUCCEEDED}


def test_a_runner_without_a_lease_changes_nothing(settings: Settings, store: Store, ray: Mapping[str, str]) -> None:
    fence = submit_and_claim(store, small_sweep("stale"))
    store.release_lease(fence)
    taken_over = store.claim("another", 60)
    assert taken_over is not None
    with runner(settings, fence, ray) as process:
        assert process.wait(PATIENT_S) == 3
    assert store.get_sweep(fence.sweep_id).state is SweepState.QUEUED
    assert store.list_attempts(fence.sweep_id) == []
