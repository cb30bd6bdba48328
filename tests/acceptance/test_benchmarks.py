"""A whole installation measures models on benchmarks, and goes on whoever is killed meanwhile."""

from collections.abc import Mapping
from typing import Any

import pytest

from sweep_service.auth import read_token
from sweep_service.client import Client
from sweep_service.settings import Settings
from sweep_service.store import Store, open_store
from sweep_service.sweep.endings import TrialState
from sweep_service.sweep.records import SweepState
from tests.sweep_stack import SMALL_TRAINING, one_of, serving, small_sweep
from tests.waiting import wait_until

pytestmark = [pytest.mark.hunt, pytest.mark.timeout(3600)]

RAW: dict[str, Any] = small_sweep(
    "measured",
    training=SMALL_TRAINING | {"model": {"warm_start_steps": 120, "hidden_size": 32, "num_layers": 1}},
    seeds={"tune": [0], "confirm": {"top_k": 1, "seeds": [7]}},
    baselines={"dapo": False, "matched": False},
    benchmarks={"names": ["expressions", "arithmetic"], "samples": 160, "longest": 64},
)


def contents(store: Store, sweep_id: str) -> Mapping[tuple[str, int, int, str], Any]:
    """Return all results by config, seed and step of the model, and benchmark."""
    models = {one.id: (one.config_id, one.seed, one.model_step) for one in store.list_evaluations(sweep_id)}
    results = store.benchmark_results(sweep_id)
    return {(*models[result.evaluation_id], result.benchmark): result.content for result in results}


def in_the_middle(store: Store, sweep_id: str, after: int) -> bool:
    """Whether an event after the one of that number tells of a trained model that is half measured."""
    sweep = store.get_sweep(sweep_id)
    assert not sweep.state.is_over, (sweep.state, sweep.message)
    trained = {one.id for one in store.list_evaluations(sweep_id, states=[TrialState.RUNNING]) if one.trial_id}
    return any(
        event.type == "evaluation.progress" and event.data["evaluation_id"] in trained and event.data["done"] > 0
        for event in store.list_events(sweep_id, after)
    )


def kill_and_wait(settings: Settings, store: Store, sweep_id: str, *words: str, told_by: str) -> None:
    """Kill a process in the middle of an evaluation, and wait for the event that tells that it is noticed."""
    seen = store.list_events(sweep_id)[-1].seq
    wait_until("a model is measured", lambda: in_the_middle(store, sweep_id, seen))
    one_of(settings.home, *words).kill()
    last = store.list_events(sweep_id)[-1].seq
    wait_until(f"{words} is noticed", lambda: any(e.type == told_by for e in store.list_events(sweep_id, last)))


def test_benchmarks_end_as_undisturbed_though_raylet_and_worker_are_killed(settings: Settings) -> None:
    store = open_store(settings.database_url)
    with serving(settings), Client(settings.url, read_token(settings.token_file)) as client:
        undisturbed = client.submit(RAW)
        wait_until("the first sweep has ended", lambda: store.get_sweep(undisturbed.id).state.is_over)
        sweep = client.submit(RAW)
        kill_and_wait(settings, store, sweep.id, "raylet/raylet", told_by="sweep.delayed")
        kill_and_wait(settings, store, sweep.id, "sweep_service", "worker", told_by="sweep.claimed")
        wait_until("the second sweep has ended", lambda: store.get_sweep(sweep.id).state.is_over)
        states = [store.get_sweep(one.id).state for one in (undisturbed, sweep)]
        assert states == [SweepState.SUCCEEDED] * 2
        evaluations = store.list_evaluations(sweep.id)
        assert {one.state for one in evaluations} == {TrialState.SUCCEEDED}
        assert max(one.attempts for one in evaluations) > 1
        assert contents(store, sweep.id) == contents(store, undisturbed.id)
        told = [event.data for event in store.list_events(sweep.id) if event.type == "evaluation.measured"]
        assert len(told) == len(contents(store, sweep.id)) == len(list(client.benchmark_scores(sweep.id)))
    store.close()
