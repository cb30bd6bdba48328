"""A sweep on a cluster whose nodes come and go: it waits while there is none, and ends as undisturbed."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from sweep_service.processes.child_processes import is_alive, start_kept, stop
from sweep_service.settings import Settings
from sweep_service.store import Fence, Store
from sweep_service.sweep.records import AttemptOutcome, SweepState, TrialState
from tests.slow_motion import caught_beyond
from tests.sweep_stack import SMALL_TRAINING, ray_head, runner, small_sweep, submit_and_claim
from tests.waiting import PATIENT_S, wait_until

NO_NODE_S = float(os.environ.get("NO_NODE_S", "8"))
"""Seconds without any node. Set the variable to have more."""


@contextmanager
def node(home: Path, ray: Mapping[str, str]) -> Iterator["subprocess.Popen[bytes]"]:
    """Have a node of two CPUs join the cluster; yield its keeper."""
    log = home / f"node-{time.monotonic_ns()}.log"
    program = str(Path(__file__).parent / "ray_node.py")
    keeper = start_kept([sys.executable, program, ray["SWEEPS_RAY_ADDRESS"]], os.environ | ray, log)
    try:
        wait_until(f"the node has joined, {log}", lambda: b"joined" in log.read_bytes())
        yield keeper
    finally:
        stop(keeper, 5)


def below(process: "subprocess.Popen[bytes]", name: str) -> psutil.Process:
    """Return the process of this name that a keeper has started."""
    return next(child for child in psutil.Process(process.pid).children(recursive=True) if child.name() == name)


def curves(store: Store, fence: Fence) -> list[tuple[int, str, list[int], list[float | None]]]:
    numbers = {trial.id: trial.number for trial in store.list_trials(fence.sweep_id)}
    stored = store.curves(fence.sweep_id, ["loss", "entropy/mean", "eval/avg_at_k"])
    return sorted((numbers[curve.trial_id], curve.key, curve.steps, curve.values) for curve in stored)


@pytest.mark.long
def test_a_node_is_lost_none_is_there_for_a_while_and_another_joins(
    settings: Settings, store: Store, forks: Mapping[str, str], tmp_path: Path
) -> None:
    training = SMALL_TRAINING | {"steps": 48, "checkpoint_every_rollouts": 4}
    raw = small_sweep("nodes", training=training, resources={"cpus": 1})
    with ray_head(tmp_path, 0, 0, **forks) as ray, node(tmp_path, ray | forks) as first:
        undisturbed = submit_and_claim(store, raw)
        with runner(settings, undisturbed, ray) as process:
            assert process.wait(PATIENT_S) == 0
        store.set_sweep_state(undisturbed, SweepState.SUCCEEDED)
        store.release_lease(undisturbed)

        fence = submit_and_claim(store, raw)
        with runner(settings, fence, ray) as process:
            caught_beyond(store, [trial.id for trial in store.list_trials(fence.sweep_id)], 20)  # on both slots
            trained = store.list_attempts(fence.sweep_id, running_only=True)
            below(first, "raylet").send_signal(signal.SIGKILL)
            wait_until(
                "its trainers have ended",
                lambda: not any(is_alive(a.host, a.pid, a.pid_started_at) for a in trained),
            )
            wait_until(
                "the sweep says what it waits for",
                lambda: "node" in (store.get_sweep(fence.sweep_id).message or ""),
            )
            time.sleep(NO_NODE_S)
            assert store.get_sweep(fence.sweep_id).state is SweepState.RUNNING
            assert process.poll() is None
            with node(tmp_path, ray | forks):
                assert process.wait(PATIENT_S) == 0
    trials, attempts = store.list_trials(fence.sweep_id), store.list_attempts(fence.sweep_id)
    assert {trial.state for trial in trials} == {TrialState.SUCCEEDED}
    outcomes = [attempt.outcome for attempt in attempts]
    assert (outcomes.count(AttemptOutcome.LOST), outcomes.count(AttemptOutcome.SUCCEEDED)) == (2, 2)
    assert {*outcomes} <= {AttemptOutcome.LOST, AttemptOutcome.PAUSED, AttemptOutcome.SUCCEEDED}  # begun, and no place
    assert curves(store, fence) == curves(store, undisturbed)
