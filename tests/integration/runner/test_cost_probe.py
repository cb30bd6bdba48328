"""The probe of a sweep before its first trial, with a real runner, a real Ray and the real trainer."""

import resource
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest

from sweep_service.service import SweepService
from sweep_service.settings import Settings
from sweep_service.store import Fence, Store, open_store
from sweep_service.sweep.records import ProbeState, SweepState, TrialState
from sweep_service.worker.reports.contents import build_report
from tests.slow_motion import caught_in, works_in
from tests.sweep_stack import SMALL_TRAINING, runner, small_sweep, submit_and_claim
from tests.waiting import PATIENT_S, wait_until
from trainers.config import with_params
from trainers.process.events import read_events

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return Settings(home=tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="module")
def store(settings: Settings) -> Iterator[Store]:
    store = open_store(settings.database_url)
    yield store
    store.close()


def run(settings: Settings, store: Store, ray: Mapping[str, str], **changes: Any) -> Fence:
    fence = submit_and_claim(store, small_sweep("probed", **changes))
    with runner(settings, fence, ray) as process:
        assert process.wait(PATIENT_S) == 0, (settings.storage / fence.sweep_id / "runner.log").read_text()
    sweep = store.get_sweep(fence.sweep_id)
    if sweep.state is SweepState.FINALIZING:  # as a worker does, else the next one to claim a sweep gets this one
        store.set_sweep_state(fence, SweepState.SUCCEEDED, sweep.message)
    return fence


def told(store: Store, sweep_id: str) -> list[str]:
    return [event.type for event in store.list_events(sweep_id) if event.type.startswith("probe")]


@pytest.fixture(scope="module")
def only(settings: Settings, store: Store, ray: Mapping[str, str]) -> str:
    return run(settings, store, ray, probe="only").sweep_id


def test_a_sweep_that_only_probes_runs_no_trial_and_has_its_report(settings: Settings, store: Store, only: str) -> None:
    sweep, probe = store.get_sweep(only), SweepService(store, settings).probe(only)
    assert sweep.state is SweepState.SUCCEEDED
    assert (sweep.message or "").startswith("probed only: a trial takes up to ")
    assert {trial.state for trial in store.list_trials(only)} == {TrialState.CANCELLED}
    assert store.list_attempts(only) == []
    assert probe.state is ProbeState.SUCCEEDED
    assert probe.cost is not None
    assert probe.cost.figures.completion_tokens == 12
    assert probe.held_s > 0
    assert told(store, only)[0] == "probe.started"
    assert told(store, only)[-1] == "probe.finished"
    assert b"probed only" in build_report(store, only, settings)[1]["md"]
    folder = settings.storage / only / "probe" / "1"
    assert not list(folder.glob("step-*"))


def test_a_sweep_of_the_same_shape_goes_by_it_and_runs(
    settings: Settings, store: Store, ray: Mapping[str, str], only: str
) -> None:
    training = with_params(SMALL_TRAINING, {"steps": 4, "evaluation.every_steps": 4})
    raw = small_sweep("plan", training=training)
    assert SweepService(store, settings).plan(raw).basis.startswith("probe of ")
    fence = run(settings, store, ray, training=training, space={"loss.beta1": 0, "loss.beta2": 0}, probe="first")
    assert told(store, fence.sweep_id) == ["probe.reused"]
    assert [trial.state for trial in store.list_trials(fence.sweep_id)] == [TrialState.SUCCEEDED]
    assert SweepService(store, settings).probe(fence.sweep_id).sweep_id == only


def test_a_sweep_whose_probe_runs_out_of_memory_ends_with_what_helps(
    settings: Settings, store: Store, ray: Mapping[str, str]
) -> None:
    long = {"model.warm_start_steps": 40, "model.hidden_size": 128, "rollout.max_completion_tokens": 300}
    training = with_params(SMALL_TRAINING, long | {"rollout.completions_per_prompt": 64})
    fence = submit_and_claim(store, small_sweep("too long", training=training, probe="first") | {"name": "too-long"})
    folder = settings.storage / fence.sweep_id / "probe" / "1"

    def makes_the_first_model(folder: Path) -> bool:
        events = folder / "events.jsonl"
        return events.exists() and any(event.get("phase") == "warm start" for event in read_events(events))

    with runner(settings, fence, ray) as process:
        (trainer,) = caught_in(folder, makes_the_first_model).processes
        limit = trainer.memory_info().vms + (200 << 20)
        trainer.rlimit(resource.RLIMIT_AS, (limit, limit))
        trainer.resume()
        assert process.wait(PATIENT_S) == 0
    sweep = store.get_sweep(fence.sweep_id)
    assert sweep.state is SweepState.FAILED
    assert (sweep.message or "").startswith("the probe failed: out of memory while sampling completions; what helps: ")
    assert {trial.state for trial in store.list_trials(sweep.id)} == {TrialState.CANCELLED}
    assert b"out of memory" in build_report(store, sweep.id, settings)[1]["md"]


def test_a_sweep_whose_trials_pass_the_budget_at_full_length_begins_none(
    settings: Settings, store: Store, ray: Mapping[str, str]
) -> None:
    training = SMALL_TRAINING | {"steps": 160000}
    seeds = {"tune": list(range(9))}
    budget = {"max_gpu_hours": 0.2, "max_trial_hours": 0.05}
    fence = run(settings, store, ray, training=training, seeds=seeds, resources={"gpus": 1}, budget=budget)
    sweep = store.get_sweep(fence.sweep_id)
    assert sweep.state is SweepState.FAILED
    assert "more than budget.max_gpu_hours 0.2" in (sweep.message or "")
    assert 0 < store.spent(sweep.id).probe_gpu_hours < 0.05
    assert store.list_attempts(sweep.id) == []


def test_cancelling_ends_a_probe(settings: Settings, store: Store, ray: Mapping[str, str]) -> None:
    training = with_params(SMALL_TRAINING, {"model.warm_start_steps": 50000})
    fence = submit_and_claim(store, small_sweep("cancelled", training=training, probe="only"))
    with runner(settings, fence, ray) as process:
        wait_until("the probe works", lambda: "probe.progress" in told(store, fence.sweep_id))
        store.request_cancel(fence.sweep_id)
        assert process.wait(PATIENT_S) == 0
    assert store.get_sweep(fence.sweep_id).state is SweepState.CANCELLED
    probe = store.last_probe(fence.sweep_id)
    assert probe is not None
    assert probe.state is ProbeState.CANCELLED
    assert not any(works_in(p, settings.storage / fence.sweep_id / "probe" / "1") for p in psutil.process_iter())
