"""Plays a runner's part in the store, event by event, so that the API can be tested on real rows without training."""

import json
import math
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from sweep_service.store import Fence, Store
from sweep_service.sweep.endings import Ending, TrialState
from sweep_service.sweep.records import Attempt, SweepState, Trial

SPEC: dict[str, Any] = {
    "name": "played",
    "labels": {"team": "rl"},
    "training": {"steps": 80},
    "space": {"loss.beta1": [0.0, 0.5, 1.0], "loss.beta2": 1.0},
    "seeds": {"tune": [0, 1]},
    "baselines": {"dapo": False},
}
VERDICT: dict[str, Any] = {
    "outcome": "UNDECIDED",
    "sentence": "UNDECIDED: β1=0 β2=1 cannot be told apart from the baseline: "
    "+0.010 [-0.020, +0.040], 4 confirm seeds.",
    "comparison": {
        "config_id": "cfg_one",
        "comparator_id": "cfg_two",
        "difference": 0.01,
        "low": -0.02,
        "high": 0.04,
        "num_seeds": 4,
    },
}
REPORT = {
    "html": b"<!doctype html><title>Report</title>",
    "json": json.dumps({"verdict": VERDICT}).encode(),
    "md": b"# Report\n",
    "verdict": json.dumps(VERDICT).encode(),
}


def claim(store: Store, sweep_id: str) -> Fence:
    """Take the sweep, whatever else waits, and set it running."""
    sweep = store.claim("test", 600, besides=[sweep.id for sweep in store.list_sweeps(1000) if sweep.id != sweep_id])
    assert sweep is not None
    assert sweep.id == sweep_id
    fence = Fence(sweep.id, sweep.epoch)
    store.set_sweep_state(fence, SweepState.RUNNING)
    return fence


def play(store: Store, sweep_id: str, level: float | None = None) -> Fence:
    """Run every pending trial to its end; the last one diverges.

    Args:
        level: what every evaluation gives, and then no trial diverges; default: values that follow beta1 and the seed.
    """
    fence = claim(store, sweep_id)
    trials = store.list_trials(sweep_id, states=[TrialState.PENDING])
    for trial in trials:
        diverges = trial is trials[-1] and level is None
        attempt = store.start_attempt(fence, trial.id, f"/nowhere/{trial.id}/{{attempt}}")
        record(store, fence, attempt, trial, range(1, trial.total_steps + 1), level)
        message = "the loss is NaN at step 80" if diverges else None
        store.finish_attempt(fence, attempt, Ending.DIVERGED if diverges else Ending.SUCCEEDED, message, 3)
    return fence


def fail_first(store: Store, sweep_id: str) -> None:
    """Fail the first pending trial, and leave the sweep to whoever claims it next."""
    fence = claim(store, sweep_id)
    trial = store.list_trials(sweep_id, states=[TrialState.PENDING])[0]
    attempt = store.start_attempt(fence, trial.id, f"/nowhere/{trial.id}/{{attempt}}")
    store.finish_attempt(fence, attempt, Ending.FAILED, "the reward cannot be imported", 0)
    store.release_lease(fence)


def finish(store: Store, fence: Fence, state: SweepState = SweepState.SUCCEEDED) -> None:
    """End the sweep, with a report if it succeeded."""
    if state is SweepState.SUCCEEDED:
        store.set_sweep_state(fence, SweepState.FINALIZING)
        store.put_report(fence.sweep_id, "digest", REPORT)
    store.set_sweep_state(fence, state)


@contextmanager
def whenever_asked(store: Store, sweep_id: str, build: Callable[[], None]) -> Generator[None]:
    """Play the worker within the block: build a sweep's report anew whenever somebody has asked for that."""
    over = threading.Event()

    def work() -> None:
        while not over.wait(0.02):
            if store.report_requested(sweep_id):
                build()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def record(
    store: Store, fence: Fence, attempt: Attempt, trial: Trial, steps: range, level: float | None = None
) -> None:
    """Store what a trainer writes over these steps: their metrics, and evaluations with samples every 40."""
    params = {config.id: config.params for config in store.list_configs(trial.sweep_id)}[trial.config_id]
    events = _evaluation(0, params, trial.seed, level) if steps[0] == 1 else []
    for step in steps:
        events.append(_event("step", step, metrics=_metrics(step, params, trial.seed)))
        if step % 40 == 0:
            events += _evaluation(step, params, trial.seed, level)
        if step == trial.total_steps:
            events.append(_event("finished", step, outcome="SUCCEEDED", summary={"seconds": 1.0}))
    store.ingest(fence, attempt, 1000 * (steps[0] - 1), 1000 * steps[-1], events)


def _event(kind: str, step: int, **data: Any) -> dict[str, Any]:
    return {"type": kind, "time": time.time(), "step": step, **data}


def _metrics(step: int, params: dict[str, Any], seed: int) -> dict[str, float | None]:
    beta = float(params.get("loss.beta1") or 0)
    entropy = 2 * math.exp(-step / 60) + beta * 0.5 + seed / 50
    return {"entropy": entropy, "reward/mean": 1 - math.exp(-step / 40), "entropy/na_lp": None, "loss": -0.01 * step}


def _evaluation(step: int, params: dict[str, Any], seed: int, level: float | None) -> list[dict[str, Any]]:
    beta = float(params.get("loss.beta1") or 0)
    value = 0.2 + 0.5 * (1 - math.exp(-step / 40)) * (1 - beta * beta) + seed / 100
    value = value if level is None else level
    samples = [{"prompt": f"{n}=", "completion": f"{n}+0", "reward": float(n % 2)} for n in range(3)]
    return [
        _event("evaluation", step, metrics={"eval/avg_at_k": value, "eval/pass_at_k": min(1.0, value + 0.2)}),
        _event("samples", step, samples=samples),
    ]
