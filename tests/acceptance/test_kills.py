"""Whatever is killed, the sweep finishes, no finished trial runs again, and nothing is left running."""

import os
import signal
from collections import Counter

import psutil
import pytest

from sweep_service.auth import read_token
from sweep_service.client import Client
from sweep_service.settings import Settings
from sweep_service.store import Store, open_store
from sweep_service.sweep.records import AttemptOutcome, Sweep, SweepState, TrialState
from tests.sweep_stack import SMALL_TRAINING, answers, one_of, processes_of, serving, small_sweep
from tests.waiting import PATIENT_S, wait_until

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]

STEPS = 800
"""Half a minute of training: what six trials have left outlasts every kill, whoever is slow to notice one."""


def kill_a_trainer(store: Store, sweep_id: str) -> None:
    """Kill a trainer in the middle of its run, and wait until its attempt has crashed."""
    wait_until("a trial trains", lambda: training(store, sweep_id))
    by_trial = {attempt.trial_id: attempt for attempt in store.list_attempts(sweep_id, running_only=True)}
    (trial, *_) = (trial for trial in store.list_trials(sweep_id, states=[TrialState.RUNNING]) if trial.step)
    attempt = by_trial[trial.id]
    assert attempt.pid is not None
    os.kill(attempt.pid, signal.SIGKILL)
    wait_until(
        "its attempt has crashed",
        lambda: any(
            (a.trial_id, a.number, a.outcome) == (trial.id, attempt.number, AttemptOutcome.CRASHED)
            for a in store.list_attempts(sweep_id)
        ),
    )


def kill_and_wait(settings: Settings, store: Store, sweep_id: str, words: list[str], told_by: str) -> None:
    """Kill a process in the middle of a trial, and wait for the event that tells that somebody went on from there."""
    wait_until("a trial trains", lambda: training(store, sweep_id))
    victim, before = one_of(settings.home, *words), last_event(store, sweep_id)
    victim.kill()
    wait_until(f"{words} is noticed", lambda: events_since(store, sweep_id, told_by, before) > 0)


def events_since(store: Store, sweep_id: str, type_: str, after: int) -> int:
    """Count the events of a type after the one numbered `after`."""
    return sum(event.type == type_ for event in store.list_events(sweep_id, after))


def last_event(store: Store, sweep_id: str) -> int:
    return store.list_events(sweep_id)[-1].seq


def training(store: Store, sweep_id: str) -> bool:
    """Whether the sweep's present runner has a trial under way that has recorded an update.

    An earlier runner's trial would not do: its successor may still be starting, and never see what is killed now.
    """
    sweep = store.get_sweep(sweep_id)
    assert not sweep.state.is_over, (sweep.state, sweep.message)
    its_own = {a.trial_id for a in store.list_attempts(sweep_id, running_only=True) if a.epoch == sweep.epoch}
    return any(trial.step for trial in store.list_trials(sweep_id, states=[TrialState.RUNNING]) if trial.id in its_own)


@pytest.mark.usefixtures("forked_sweeps")
def test_the_sweep_outlives_every_kill(settings: Settings) -> None:
    training_config = SMALL_TRAINING | {"steps": STEPS, "checkpoint_every_rollouts": 4}
    seeds = {"tune": [0, 1], "confirm": {"top_k": 1, "seeds": [7]}}
    raw = small_sweep("kills", training=training_config, seeds=seeds, resources={})
    store = open_store(settings.database_url)
    with serving(settings) as serve:
        api = one_of(settings.home, "sweep_service", "api")
        api.kill()
        api.wait(PATIENT_S)
        wait_until("the API is back", lambda: answers(settings))
        with Client(settings.url, read_token(settings.token_file)) as client:
            sweep = client.submit(raw)
        kill_a_trainer(store, sweep.id)
        kill_and_wait(settings, store, sweep.id, ["sweep_service.runner"], "sweep.claimed")
        kill_and_wait(settings, store, sweep.id, ["sweep_service", "worker"], "sweep.claimed")
        kill_and_wait(settings, store, sweep.id, ["raylet/raylet"], "sweep.delayed")
        one_of(settings.home, "sweep_service", "api").kill()
        wait_until("a trial trains", lambda: training(store, sweep.id))
        everything = [*processes_of(settings.home), *trainers(store, sweep.id)]
        serve.kill()
        serve.wait()
        wait_until("nothing survives serve", lambda: not any(map(alive, [*everything, *processes_of(settings.home)])))
    with serving(settings):  # the same command
        wait_until("the sweep has ended", lambda: store.get_sweep(sweep.id).state.is_over)
    check(store, store.get_sweep(sweep.id))
    store.close()


def trainers(store: Store, sweep_id: str) -> list[psutil.Process]:
    """Return the trainers that run, which as forks have another environment than the stack's."""
    found = list[psutil.Process]()

    def are_known() -> bool:
        pids = [attempt.pid for attempt in store.list_attempts(sweep_id, running_only=True)]
        found[:] = [psutil.Process(pid) for pid in pids if pid is not None and psutil.pid_exists(pid)]
        return bool(found)

    wait_until("the runner knows its trainers", are_known)
    return found


def alive(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


def check(store: Store, sweep: Sweep) -> None:
    """The sweep has succeeded, and every trial exactly once, in its last attempt."""
    assert (sweep.state, sweep.message) == (SweepState.SUCCEEDED, None)
    trials = store.list_trials(sweep.id)
    assert {trial.state for trial in trials} == {TrialState.SUCCEEDED}
    attempts = store.list_attempts(sweep.id)
    assert Counter(a.trial_id for a in attempts if a.outcome is AttemptOutcome.SUCCEEDED) == {t.id: 1 for t in trials}
    assert all(a.outcome in (AttemptOutcome.CRASHED, AttemptOutcome.LOST, AttemptOutcome.SUCCEEDED) for a in attempts)
    assert all(
        a.outcome is AttemptOutcome.SUCCEEDED
        for a in attempts
        if a.number == max(b.number for b in attempts if b.trial_id == a.trial_id)
    )
    assert sum(a.outcome is AttemptOutcome.CRASHED for a in attempts) == 1
    for curve in store.curves(sweep.id, ["loss"]):
        assert curve.steps == list(range(1, STEPS + 1))
