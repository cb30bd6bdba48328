"""Sweeps put into a store as a runner would: what tests of everything behind the store start from."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sweep_service.intake.spec_check import parse_spec
from sweep_service.store import Fence, Store
from sweep_service.sweep.endings import Ending, TrialState
from sweep_service.sweep.evaluations import missing_evaluations
from sweep_service.sweep.plan import first_records
from sweep_service.sweep.records import Attempt, DesiredState, Evaluation, Sweep, SweepState, Trial, new_id
from sweep_service.sweep.spec import SweepSpec

START = 1_700_000_000.0
SPEC = {
    "name": "betas",
    "labels": {"team": "rl"},
    "training": {"steps": 16},
    "space": {"loss.beta1": [0.0, 0.5], "loss.beta2": [1.0]},
    "seeds": {"tune": [0, 1]},
    "baselines": {"dapo": False},
}


NODES = [{"CPU": 64.0, "GPU": 64.0}]
"""Ray's nodes, large enough for every sweep of the tests."""


def make_sweep(spec: SweepSpec, **changes: Any) -> Sweep:
    """Return a new sweep that no store has yet."""
    fields: dict[str, Any] = {
        "id": new_id("swp"),
        "name": spec.name,
        "state": SweepState.QUEUED,
        "desired_state": DesiredState.RUN,
        "created_at": START,
        "spec": spec,
        "spec_digest": spec.digest,
    }
    return Sweep(**fields | changes)


def submit(store: Store, **changes: Any) -> Sweep:
    """Store a sweep of `SPEC` with its first configs and trials."""
    sweep = make_sweep(parse_spec(SPEC | changes))
    return store.create_sweep(sweep, *first_records(sweep.spec, sweep.id))


def claimed(store: Store, lease_s: float = 3600, **which: Any) -> tuple[Sweep, Fence]:
    """Take over the sweep whose turn it is; there is one."""
    sweep = store.claim("test", lease_s, **which)
    assert sweep is not None
    return sweep, Fence(sweep.id, sweep.epoch)


def start(store: Store, **changes: Any) -> tuple[Sweep, Fence]:
    """Store a sweep and take it over as its runner. No other sweep may be waiting."""
    submitted = submit(store, **changes)
    sweep, fence = claimed(store)
    assert sweep.id == submitted.id
    store.set_sweep_state(fence, SweepState.RUNNING)
    return store.get_sweep(sweep.id), fence


def training_events(first: int, last: int, time: float = START, every: int = 4) -> Iterator[dict[str, Any]]:
    """Yield a trainer's events of the steps from `first` to `last`, one a second; a step has the same values always."""
    for step in range(first, last + 1):
        metrics = {
            "loss": 1 / step,
            "entropy": 1.0 - step / 100,
            "entropy/na_lp": None if step % 3 == 0 else 1.5,
            "reward/mean": step / 20,
        }
        yield {"type": "step", "step": step, "time": time + step, "metrics": metrics}
        if step % every == 0:
            evaluation = {"eval/avg_at_k": step / 40, "eval/pass_at_k": step / 20}
            yield {"type": "evaluation", "step": step, "time": time + step + 0.5, "metrics": evaluation}


def finished_event(summary: dict[str, float | None]) -> dict[str, Any]:
    """Return a trainer's last event."""
    return {"type": "finished", "time": START + 100, "outcome": "SUCCEEDED", "step": 16, "summary": summary}


def warning_event(code: str, step: int, message: str = "β1 and β2 hardly act") -> dict[str, Any]:
    """Return a trainer's warning."""
    evidence = {"share": 0.0002, "limit": 0.001}
    return {
        "type": "warning",
        "time": START + step,
        "step": step,
        "code": code,
        "message": message,
        "evidence": evidence,
    }


def benchmark_result(right: int) -> dict[str, Any]:
    """Return a result of two problems with four samples each, of which the first has so many right."""

    def estimate(k: int, mean: float | None) -> dict[str, Any]:
        return {"k": k, "mean": mean, "sampling_se": 0.01, "problem_se": 0.02, "problems": 2}

    problems = [
        {"id": "one", "judged": 4, "right": right, "truncated": 1, "tokens_mean": 5.0},
        {"id": "two", "judged": 3, "right": 0, "truncated": 0, "tokens_mean": 7.0},
    ]
    passes = [estimate(1, right / 8), estimate(2, right / 4), estimate(4, None)]
    scores = {"avg_at_k": estimate(4, right / 8), "pass_at_k": passes, "majority_at_k": estimate(4, 0.5)}
    figures = {"tokens_mean": 6.0, "truncated_share": 0.125, "failed_share": 0.125}
    return {"scores": scores, "samples": figures, "problems": problems}


def benchmark_event(name: str, right: int, time: float = 50.0) -> dict[str, Any]:
    """Return the event of a process that has measured a model on a benchmark."""
    shown = [{"prompt": "2=", "completion": "1+1", "reward": 1.0, "correct": True}] * 2
    event = {"type": "benchmark", "time": time, "name": name, "model_sha256": "ab" * 32, "shown": shown}
    return event | {"result": benchmark_result(right)}


def add_missing_evaluations(store: Store, fence: Fence) -> list[Evaluation]:
    """Store the evaluations that a sweep needs by now, and return these."""
    sweep_id = fence.sweep_id
    rows = store.list_configs(sweep_id), store.list_trials(sweep_id), store.list_evaluations(sweep_id)
    new = missing_evaluations(store.get_sweep(sweep_id), *rows, store.kept_models(sweep_id))
    store.add_evaluations(fence, new)
    return new


def measure(store: Store, fence: Fence, evaluation: Evaluation, right: Mapping[str, int]) -> None:
    """Run an evaluation to its end, with so many right samples of four of the first problem by benchmark."""
    events = [benchmark_event(name, number, START + 200 + place) for place, (name, number) in enumerate(right.items())]
    one_attempt(store, fence, evaluation.id, Ending.SUCCEEDED, events)


def ingest(store: Store, fence: Fence, attempt: Attempt, events: Sequence[dict[str, Any]], size: int = 5) -> None:
    """Store events in parts of `size`, as if each were one byte long."""
    offset = store.events_offset(attempt)
    for index in range(0, len(events), size):
        part = events[index : index + size]
        store.ingest(fence, attempt, offset + index, offset + index + len(part), part)


def one_attempt(
    store: Store,
    fence: Fence,
    work_id: str,
    ending: Ending,
    events: Sequence[dict[str, Any]] = (),
    max_crashes: int = 3,
    message: str | None = None,
    more_held_s: float = 0.0,
) -> TrialState:
    """Run a trial or an evaluation in one attempt that records these events; return its state after this ending."""
    attempt = store.start_attempt(fence, work_id, "/data/{attempt}")
    ingest(store, fence, attempt, events)
    return store.finish_attempt(fence, attempt, ending, message, max_crashes, more_held_s)


def run_trial(store: Store, fence: Fence, trial: Trial, outcome: Ending = Ending.SUCCEEDED) -> None:
    """Run a trial to its end in one attempt."""
    events = [*training_events(1, 16), finished_event({"eval/avg_at_k": 0.4, "tokens/total": 1000.0})]
    message = None if outcome is Ending.SUCCEEDED else f"it ended as {outcome}"
    one_attempt(store, fence, trial.id, outcome, events, max_crashes=0, message=message)


def finish(store: Store, fence: Fence) -> None:
    """End a sweep well."""
    store.set_sweep_state(fence, SweepState.FINALIZING)
    store.set_sweep_state(fence, SweepState.SUCCEEDED)
