"""A sweep that is paused in the middle of its trials, and resumed: nothing is held meanwhile, and no number changes."""

from collections.abc import Mapping
from typing import Any

import psutil
import pytest

from sweep_service.processes.child_processes import is_alive
from sweep_service.settings import Settings
from sweep_service.store import Fence, Store
from sweep_service.sweep.records import AttemptOutcome, SweepState, TrialState
from tests.slow_motion import caught_beyond
from tests.sweep_stack import SMALL_TRAINING, command_of, runner, small_sweep, submit_and_claim
from tests.waiting import PATIENT_S, wait_until

STEPS = 48


def spec(processes: int, **changes: Any) -> dict[str, Any]:
    training = SMALL_TRAINING | {"steps": STEPS, "device_batch": 4, "checkpoint_every_rollouts": 1000}
    resources = {"cpus": processes, "processes": processes}
    return small_sweep("paused", training=training, resources=resources, **changes)


def curves(store: Store, fence: Fence) -> list[tuple[int, str, list[int], list[float | None]]]:
    numbers = {trial.id: trial.number for trial in store.list_trials(fence.sweep_id)}
    found = store.curves(fence.sweep_id, ["loss", "entropy/mean", "eval/avg_at_k"])
    return sorted((numbers[curve.trial_id], curve.key, curve.steps, curve.values) for curve in found)


def wait_for_actors(sweep_id: str) -> None:
    """Wait until Ray has ended the actors of a sweep whose runner has left."""
    words = f"trial-{sweep_id}"
    wait_until("no actor is left", lambda: not any(words in " ".join(command_of(p)) for p in psutil.process_iter()))


@pytest.mark.long
@pytest.mark.parametrize("processes", [1, 2])
def test_paused_and_resumed_it_ends_as_undisturbed(
    settings: Settings, store: Store, ray: Mapping[str, str], processes: int
) -> None:
    undisturbed = submit_and_claim(store, spec(processes))
    with runner(settings, undisturbed, ray) as process:
        assert process.wait(PATIENT_S) == 0
    store.set_sweep_state(undisturbed, SweepState.SUCCEEDED)
    store.release_lease(undisturbed)

    fence = submit_and_claim(store, spec(processes))
    for at in (0, 24) if processes == 1 else (24,):
        with runner(settings, fence, ray) as process:
            (trainer,) = caught_beyond(store, [store.list_trials(fence.sweep_id)[0].id], at)
            store.request_pause(fence.sweep_id)  # another one starts, samples or trains
            trainer.go_on_once_told_to_stop()
            assert process.wait(PATIENT_S) == 0
        assert store.get_sweep(fence.sweep_id).state is SweepState.PAUSED
        attempts = store.list_attempts(fence.sweep_id)
        assert attempts
        assert not any(is_alive(a.host, a.pid, a.pid_started_at) for a in attempts)
        wait_for_actors(fence.sweep_id)
        trials = store.list_trials(fence.sweep_id)
        assert {trial.state for trial in trials} <= {TrialState.PENDING, TrialState.SUCCEEDED}
        for trial in trials:
            checkpoint = store.newest_checkpoint(trial.id)
            assert trial.step == (checkpoint.step if checkpoint else 0)  # nothing that was trained is trained again
        store.release_lease(fence)
        assert store.claim("nobody gets it", 60) is None
        store.request_resume(fence.sweep_id)
        claimed = store.claim("test", 60)
        assert claimed is not None
        fence = Fence(claimed.id, claimed.epoch)
    with runner(settings, fence, ray) as process:
        assert process.wait(PATIENT_S) == 0
    outcomes = {attempt.outcome for attempt in store.list_attempts(fence.sweep_id)}
    assert outcomes == {AttemptOutcome.PAUSED, AttemptOutcome.SUCCEEDED}
    assert curves(store, fence) == curves(store, undisturbed)
