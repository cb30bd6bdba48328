"""Limits hold for real trainers on a real Ray: on CPUs, and on GPUs as Ray counts them."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from sweep_service.processes.child_processes import is_alive
from sweep_service.settings import Settings
from sweep_service.store import Store
from sweep_service.sweep.budget import gpu_hours
from sweep_service.sweep.endings import AttemptOutcome, Ending, TrialState
from sweep_service.sweep.records import SweepState
from tests.sweep_stack import SMALL_TRAINING, runner, small_sweep, submit_and_claim
from tests.waiting import PATIENT_S

pytestmark = pytest.mark.long

ENDLESS = SMALL_TRAINING | {"steps": 960_000}
LIMIT_S = 3.6
"""Short: what is shown does not depend on whether a trainer has begun by then."""


def test_a_trial_is_stopped_at_its_limit_and_has_failed(tmp_path: Path, store: Store, ray: Mapping[str, str]) -> None:
    settings = Settings(home=tmp_path)
    budget, resources = {"max_trial_hours": LIMIT_S / 3600}, {"max_parallel": 1}
    raw = small_sweep("stopped", training=ENDLESS, budget=budget, resources=resources)
    fence = submit_and_claim(store, raw)
    with runner(settings, fence, ray) as process:
        assert process.wait(PATIENT_S) == 0, (settings.storage / fence.sweep_id / "runner.log").read_text()
    assert store.get_sweep(fence.sweep_id).state is SweepState.FINALIZING
    for trial in store.list_trials(fence.sweep_id):
        assert (trial.state, trial.attempts) == (TrialState.FAILED, 1)
        where = f"it was at step {trial.step} of 960000; raise budget.max_trial_hours or lower steps"
        assert trial.message == f"stopped after max_trial_hours {LIMIT_S / 3600:g}: {where}"
        assert trial.held_s >= LIMIT_S
    attempts = store.list_attempts(fence.sweep_id)
    assert {attempt.outcome for attempt in attempts} == {AttemptOutcome.FAILED}
    assert not any(is_alive(a.host, a.pid, a.pid_started_at) for a in attempts)


def test_only_so_many_trials_begin_as_the_gpu_hours_bear(tmp_path: Path, store: Store, ray: Mapping[str, str]) -> None:
    settings = Settings(home=tmp_path)
    raw = small_sweep(
        "gpu-hours",
        training=ENDLESS,
        seeds={"tune": [0, 1, 2]},
        resources={"cpus": 0.25, "gpus": 0.5},
        budget={"max_trial_hours": LIMIT_S / 3600, "max_gpu_hours": 2.5 * 0.5 * LIMIT_S / 3600},
        probe="off",
    )
    fence = submit_and_claim(store, raw)
    with runner(settings, fence, ray) as process:
        assert process.wait(PATIENT_S) == 0, (settings.storage / fence.sweep_id / "runner.log").read_text()
    sweep, trials = store.get_sweep(fence.sweep_id), store.list_trials(fence.sweep_id)
    assert sweep.state is SweepState.FINALIZING
    assert [trial.state for trial in trials] == [TrialState.FAILED] * 2 + [TrialState.CANCELLED] * 4
    assert all(trial.ending is Ending.OVER_BUDGET and trial.held_s == 0 for trial in trials[2:])
    used = gpu_hours(sweep.spec, store.spent(sweep.id))
    assert used.reserved == 0
    assert used.used == pytest.approx(0.5 * sum(trial.held_s for trial in trials) / 3600)
    assert used.used >= 2 * 0.5 * LIMIT_S / 3600
