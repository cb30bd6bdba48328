"""Trainers and actors that can write nothing for a while: their trials go on, and end as undisturbed."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

import psutil
import pytest

from sweep_service.settings import Settings
from sweep_service.store import Fence, Store
from sweep_service.sweep.records import AttemptOutcome, SweepState, TrialState
from tests.chaos.specs import spec_of
from tests.slow_motion import caught_beyond
from tests.sweep_stack import SMALL_TRAINING, command_of, runner, small_sweep, submit_and_claim
from tests.waiting import PATIENT_S, wait_until

STEPS = 48
SPECS: Final[Mapping[str, Mapping[str, Any]]] = {
    "ours": small_sweep(
        "full", training=SMALL_TRAINING | {"steps": STEPS, "checkpoint_every_rollouts": 4}, retries={"max_crashes": 0}
    ),
    "one's own": spec_of("own", "full") | {"resources": {"max_parallel": 1}, "retries": {"max_crashes": 0}},
}


def limit_files(store: Store, sweep_id: str, size: int) -> None:
    """Let the sweep's actors, and what they start, lengthen no file beyond a size in bytes; -1 lifts the limit.

    Processes of Python get an error for each write, as on a full disk; Ray's own programs would end.
    """
    actors = [process for process in psutil.process_iter() if f"ray::trial-{sweep_id}" in " ".join(command_of(process))]
    assert actors
    pids = [attempt.pid for attempt in store.list_attempts(sweep_id) if attempt.pid and psutil.pid_exists(attempt.pid)]
    trainers = [psutil.Process(pid) for pid in pids]
    started = [child for process in (*actors, *trainers) for child in process.children(recursive=True)]
    forking = [parent for trainer in trainers if (parent := trainer.parent())]
    for process in {*actors, *trainers, *started, *forking}:
        with suppress(psutil.NoSuchProcess):
            process.rlimit(psutil.RLIMIT_FSIZE, (size, process.rlimit(psutil.RLIMIT_FSIZE)[1]))


def curves(store: Store, fence: Fence) -> list[tuple[int, list[int], list[float | None]]]:
    numbers = {trial.id: trial.number for trial in store.list_trials(fence.sweep_id)}
    found = store.curves(fence.sweep_id, ["loss", "entropy/mean", "reward/mean", "eval/avg_at_k"])
    return sorted((numbers[curve.trial_id], curve.steps, curve.values) for curve in found)


@pytest.mark.long
@pytest.mark.parametrize("trainer", SPECS)
def test_a_disk_that_is_full_for_seconds_costs_no_trial(
    trainer: str, settings: Settings, store: Store, ray: Mapping[str, str]
) -> None:
    settings = settings.model_copy(update={"trainer_commands": "any"})
    spec = dict(SPECS[trainer])
    undisturbed = submit_and_claim(store, spec)
    with runner(settings, undisturbed, ray) as process:
        assert process.wait(PATIENT_S) == 0
    store.set_sweep_state(undisturbed, SweepState.SUCCEEDED)
    store.release_lease(undisturbed)
    fence = submit_and_claim(store, spec)
    with runner(settings, fence, ray) as process:
        (trainer,) = caught_beyond(store, [store.list_trials(fence.sweep_id)[-1].id], 0)
        limit_files(store, fence.sweep_id, 0)
        trainer.go_on()
        wait_until("the sweep says why nothing begins", lambda: store.get_sweep(fence.sweep_id).message)
        limit_files(store, fence.sweep_id, -1)
        assert process.wait(PATIENT_S) == 0
    assert {trial.state for trial in store.list_trials(fence.sweep_id)} == {TrialState.SUCCEEDED}
    outcomes = [attempt.outcome for attempt in store.list_attempts(fence.sweep_id)]
    assert set(outcomes) == {AttemptOutcome.LOST, AttemptOutcome.SUCCEEDED}
    assert outcomes.count(AttemptOutcome.SUCCEEDED) == len(store.list_trials(fence.sweep_id))
    assert store.get_sweep(fence.sweep_id).message is None
    assert curves(store, fence) == curves(store, undisturbed)
