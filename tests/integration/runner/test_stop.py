"""Trials that are stopped by hand while their sweep goes on: one that runs, one that waits, and another try."""

import json
from collections.abc import Mapping
from statistics import fmean

import pytest

from sweep_service.processes.child_processes import is_alive
from sweep_service.service import SweepService
from sweep_service.settings import Settings
from sweep_service.store import Fence, Store
from sweep_service.sweep.endings import AttemptOutcome, Ending
from sweep_service.sweep.records import SweepState, TrialState
from sweep_service.worker.reports.contents import build_report
from tests.slow_motion import caught_beyond
from tests.sweep_stack import SMALL_TRAINING, runner, small_sweep, submit_and_claim
from tests.waiting import PATIENT_S, wait_until

STEPS = 48
EVALUATED = "eval/avg_at_k"


@pytest.mark.long
def test_the_sweep_goes_on_without_the_trials_that_somebody_stops(
    settings: Settings, store: Store, ray: Mapping[str, str]
) -> None:
    training = SMALL_TRAINING | {"steps": STEPS, "checkpoint_every_rollouts": 1000}
    space = {"loss.beta1": [0, 0.5, 0.75, 1], "loss.beta2": 0}
    raw = small_sweep("stopped", training=training, space=space, resources={"max_parallel": 2})
    fence = submit_and_claim(store, raw)
    sweep_id, service = fence.sweep_id, SweepService(store, settings)
    stopped, other, following, waiting = store.list_trials(sweep_id)
    with runner(settings, fence, ray) as process:
        one, another = caught_beyond(store, [stopped.id, other.id], 9)  # it has evaluated
        service.stop_trial(stopped.id, counts=True)
        service.stop_trial(waiting.id, counts=False)
        one.go_on_once_told_to_stop()
        wait_until("the next trial begins", lambda: store.get_trial(following.id).attempts > 0)
        another.go_on()
        assert store.get_trial(stopped.id).state is TrialState.STOPPED
        assert process.wait(PATIENT_S) == 0, (settings.storage / sweep_id / "runner.log").read_text()
    assert store.get_sweep(sweep_id).state is SweepState.FINALIZING
    trials = {trial.id: trial for trial in store.list_trials(sweep_id)}
    assert [trials[one.id].state for one in (other, following)] == [TrialState.SUCCEEDED] * 2
    assert (trials[waiting.id].state, trials[waiting.id].attempts) == (TrialState.DISCARDED, 0)
    (attempt,) = store.attempts_of(stopped.id)
    assert (attempt.outcome, attempt.ending) == (AttemptOutcome.STOPPED, Ending.STOPPED)
    assert not is_alive(attempt.host, attempt.pid, attempt.pid_started_at)
    (last,) = [one.ended_at for one in store.attempts_of(other.id)]
    (begun,) = [one.started_at for one in store.attempts_of(following.id)]
    assert attempt.ended_at is not None
    assert last is not None
    assert attempt.ended_at < begun < last  # the place of the one that was stopped, not of the one that went on
    checkpoint = store.newest_checkpoint(stopped.id)
    assert checkpoint is not None
    assert 0 < checkpoint.step == trials[stopped.id].step < STEPS  # it saved, and no step came after

    (curve,) = store.curves(sweep_id, [EVALUATED], [stopped.id])
    recorded = [value for value in curve.values if value is not None]
    sweep = store.get_sweep(sweep_id)
    _, objectives = service.objectives(sweep)
    assert objectives[stopped.id] == pytest.approx(fmean(recorded[-sweep.spec.objective.last :]))
    assert objectives[waiting.id] is None
    digest, contents, _ = build_report(store, sweep_id, settings)
    warned = {one["code"]: one for one in json.loads(contents["json"])["cautions"]}
    assert set(warned["STOPPED_TRIALS"]["trials"]) == {stopped.id, waiting.id}
    assert "torch" in store.versions(sweep_id)[stopped.id][0]
    store.put_report(sweep_id, digest, contents)
    store.set_sweep_state(fence, SweepState.SUCCEEDED)
    store.release_lease(fence)

    assert service.retry_trial(stopped.id).state is SweepState.QUEUED
    claimed = store.claim("test", 60)
    assert claimed is not None
    again = Fence(sweep_id, claimed.epoch)
    with runner(settings, again, ray) as process:
        assert process.wait(PATIENT_S) == 0
    ended = store.get_trial(stopped.id)
    assert (ended.state, ended.step, ended.attempts) == (TrialState.SUCCEEDED, STEPS, 2)
    (curve,) = store.curves(sweep_id, ["loss"], [stopped.id])
    assert curve.steps == list(range(1, STEPS + 1))
    later = [
        events["step"] for events in _events(store.attempts_of(stopped.id)[1].directory) if events["type"] == "step"
    ]
    assert later[0] == checkpoint.step + 1  # nothing that was trained is trained again


def _events(directory: str) -> list[dict[str, int]]:
    with open(f"{directory}/events.jsonl") as lines:
        return [json.loads(line) for line in lines]
