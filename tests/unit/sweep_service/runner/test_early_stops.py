"""When a rule is asked while a sweep runs, and that all it says is stored before trials end."""

from types import SimpleNamespace
from typing import Any

import pytest

from sweep_service.runner.early_stops import EarlyStops
from sweep_service.runner.wishes import Wishes
from sweep_service.store import Fence, Store
from sweep_service.sweep.endings import Ending, TrialState
from sweep_service.sweep.records import Sweep, Trial
from tests.stored_sweeps import START, ingest, start

SPACE = {"loss.beta1": [0.25, 0.5, 0.75, 1.0], "loss.beta2": [1.0]}


def begun(store: Store, rule: str, seeds: int) -> tuple[Sweep, Fence, EarlyStops, Wishes]:
    sweep, fence = start(store, space=SPACE, seeds={"tune": [*range(seeds)]}, early_stopping=rule)
    wishes = Wishes(store, sweep.id)
    return sweep, fence, EarlyStops(store, fence, wishes), wishes


def evaluation(step: int, value: float) -> dict[str, Any]:
    return {"type": "evaluation", "step": step, "time": START, "metrics": {"eval/avg_at_k": value}}


def worth(store: Store, trial: Trial) -> float:
    """A result that only the config decides, in the order of numbers, and a little the seed."""
    number = next(config.number for config in store.list_configs(trial.sweep_id) if config.id == trial.config_id)
    return 0.1 * number + 0.001 * (trial.seed * number % 3)


def train(store: Store, fence: Fence, trial: Trial, step: int = 16) -> None:
    attempt = store.start_attempt(fence, trial.id, "/data/{attempt}")
    ingest(store, fence, attempt, [evaluation(step, worth(store, trial))])
    if step == 16:
        store.finish_attempt(fence, attempt, Ending.SUCCEEDED, None, 3)


def test_after_the_end_of_a_trial_the_rule_is_asked_and_waiting_trials_end(store: Store) -> None:
    sweep, fence, stops, wishes = begun(store, "rungs", 4)
    first = [trial for trial in store.list_trials(sweep.id) if trial.seed == 0]
    for trial in first[:-1]:
        train(store, fence, trial)
    stops.look()
    assert store.judgements(sweep.id) == []
    train(store, fence, first[-1])
    later = next(
        trial for trial in store.list_trials(sweep.id) if trial.seed == 1 and trial.config_id == first[1].config_id
    )
    store.start_attempt(fence, later.id, "/data/{attempt}")
    stops.look()
    assert store.judgements(sweep.id) == [], "nobody has said that a trial ended"
    stops.note_end()
    stops.look()
    dropped = {one.config_id for one in store.judgements(sweep.id) if one.dropped}
    assert later.config_id in dropped
    assert wishes.dropped == {later.id: next(one.message for one in store.judgements(sweep.id) if one.dropped)}
    waiting = [trial.state for trial in store.list_trials(sweep.id) if trial.config_id in dropped and trial.seed > 1]
    assert {*waiting} == {TrialState.EARLY_STOPPED}


def test_looks_that_are_due_are_made_one_after_the_other(store: Store) -> None:
    sweep, fence, stops, _ = begun(store, "rungs", 4)
    for trial in store.list_trials(sweep.id):
        train(store, fence, trial)
    stops.look()
    assert {one.mark for one in store.judgements(sweep.id)} == {1, 2}


def test_rules_of_single_runs_are_asked_once_a_second(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("sweep_service.runner.early_stops.time", SimpleNamespace(monotonic=lambda: now))
    sweep, fence, stops, wishes = begun(store, "asha", 1)
    stops.look()
    trials = store.list_trials(sweep.id)
    for trial in trials:
        train(store, fence, trial, step=4)
    stops.note_events([{"type": "step"}])
    now += 2
    stops.look()
    assert store.judgements(sweep.id) == []
    stops.note_events([evaluation(4, 0.5)])
    stops.look()
    now += 0.5
    assert store.judgements(sweep.id)
    judged = len(store.judgements(sweep.id))
    assert wishes.dropped.keys() <= {trial.id for trial in trials}
    assert wishes.dropped
    stops.note_events([evaluation(4, 0.5)])
    stops.look()
    assert len(store.judgements(sweep.id)) == judged
