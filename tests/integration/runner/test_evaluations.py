"""Models measured on benchmarks by the real runner, on a real Ray, with the real trainer; killed in the middle, too."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest

from sweep_service.service import SweepService
from sweep_service.settings import Settings
from sweep_service.store import Fence, Store
from sweep_service.sweep.records import Stage, SweepState, TrialState
from tests.slow_motion import Caught, caught
from tests.sweep_stack import SMALL_TRAINING, command_of, runner, small_sweep, submit_and_claim
from tests.waiting import PATIENT_S, wait_until
from trainers.export import export

SEEDS = {"tune": [0], "confirm": {"top_k": 1, "seeds": [7]}}
BENCHMARKS = {"names": ["expressions", "arithmetic"], "samples": 12}
SAMPLES = 12 * (24 + 40)
"""Number of samples of a model, on all problems of both benchmarks."""


def measured_sweep(**changes: Any) -> dict[str, Any]:
    taught = {"warm_start_steps": 120, "hidden_size": 32, "num_layers": 1}  # enough to be right now and then
    fields: dict[str, Any] = {"training": SMALL_TRAINING | {"model": taught}, "seeds": SEEDS, "benchmarks": BENCHMARKS}
    return small_sweep("measured", baselines={"dapo": False, "matched": False}, **fields | changes)


def run_out(settings: Settings, store: Store, fence: Fence, ray: Mapping[str, str]) -> None:
    """Run a sweep's runner to the end of its work."""
    with runner(settings, fence, ray) as process:
        assert process.wait(PATIENT_S) == 0, (settings.storage / fence.sweep_id / "runner.log").read_text()
    assert store.get_sweep(fence.sweep_id).state is SweepState.FINALIZING


def contents(store: Store, sweep_id: str) -> dict[tuple[str, int, int, str], dict[str, Any]]:
    """Return all results by config, seed and step of the model, and benchmark."""
    evaluations = {evaluation.id: evaluation for evaluation in store.list_evaluations(sweep_id)}
    found = dict[tuple[str, int, int, str], dict[str, Any]]()
    for result in store.benchmark_results(sweep_id):
        one = evaluations[result.evaluation_id]
        found[one.config_id, one.seed, one.model_step, result.benchmark] = result.content
    return found


def test_the_initial_and_the_confirmed_models_are_measured_as_the_command_measures_them(
    settings: Settings, store: Store, ray: Mapping[str, str], tmp_path: Path
) -> None:
    fence = submit_and_claim(store, measured_sweep())
    run_out(settings, store, fence, ray)
    evaluations = store.list_evaluations(fence.sweep_id)
    confirmed = [trial for trial in store.list_trials(fence.sweep_id) if trial.stage is Stage.CONFIRM]
    assert {evaluation.trial_id for evaluation in evaluations} == {None, *(trial.id for trial in confirmed)}
    assert {(one.state, one.attempts, one.step) for one in evaluations} == {(TrialState.SUCCEEDED, 1, 2)}
    assert all(one.held_s > 0 for one in evaluations)
    results = store.benchmark_results(fence.sweep_id)
    assert len(results) == 2 * len(evaluations)
    (trained, *_) = confirmed
    checkpoint = store.newest_checkpoint(trained.id)
    assert checkpoint is not None
    export(Path(checkpoint.path), tmp_path / "exported")
    command = [sys.executable, "-m", "trainers.benchmarks", "--model", str(tmp_path / "exported")]
    command += ["--benchmark", "expressions,arithmetic", "--samples", "12", "--output", str(tmp_path / "by-hand")]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    subprocess.run([*command, "--cache", str(settings.cache)], check=True, env=environment)
    (evaluation,) = (one for one in evaluations if one.trial_id == trained.id)
    for result in (result for result in results if result.evaluation_id == evaluation.id):
        by_hand = json.loads((tmp_path / "by-hand" / result.benchmark / "result.json").read_text())
        assert result.content == by_hand
    scores = {result.content["scores"]["avg_at_k"]["mean"] for result in results if result.benchmark == "expressions"}
    assert any(score > 0 for score in scores)


@pytest.mark.long
def test_the_models_of_given_steps_are_measured_on_resources_of_their_own_and_leave_the_disk(
    settings: Settings, store: Store, ray: Mapping[str, str]
) -> None:
    fence = submit_and_claim(store, measured_sweep(benchmarks=BENCHMARKS | {"at": [6, 16], "resources": {"cpus": 0.5}}))
    run_out(settings, store, fence, ray)
    evaluations = store.list_evaluations(fence.sweep_id)
    confirmed = [trial.id for trial in store.list_trials(fence.sweep_id) if trial.stage is Stage.CONFIRM]
    expected = {(None, 0), *((trial_id, step) for trial_id in confirmed for step in (6, 16))}
    assert {(one.trial_id, one.model_step) for one in evaluations} == expected
    assert {(one.state, one.attempts, one.step) for one in evaluations} == {(TrialState.SUCCEEDED, 1, 2)}
    folders = [Path(attempt.directory) for attempt in store.list_attempts(fence.sweep_id)]
    assert {entry.name for folder in folders for entry in folder.iterdir() if entry.is_dir()} <= {
        "step-16",
        ".unfinished",
    }


def samples(folder: Path) -> int:
    """Count the samples that lie below a folder."""
    return sum(path.read_bytes().count(b"\n") for path in folder.rglob("samples.jsonl"))


def kill_actor(sweep_id: str) -> None:
    """Kill the actor of a sweep with one slot."""
    words = f"ray::trial-{sweep_id}"
    next(one for one in psutil.process_iter() if words in " ".join(command_of(one))).kill()


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_evaluations_that_are_killed_or_paused_go_on_and_end_as_undisturbed(
    settings: Settings, store: Store, ray: Mapping[str, str]
) -> None:
    """Each of four evaluations in another way: its process, its actor or its runner is killed, or its sweep paused."""
    raw = measured_sweep(seeds={"tune": [0, 1]}, benchmarks=BENCHMARKS | {"of": "all"})
    undisturbed = submit_and_claim(store, raw)
    run_out(settings, store, undisturbed, ray)
    store.release_lease(undisturbed)
    fence, disturbed = submit_and_claim(store, raw), set[str]()

    def next_one() -> Caught:
        """Return what measures another trained model, in the middle of its samples."""
        found = list[str]()

        def is_found() -> bool:
            running = store.list_evaluations(fence.sweep_id, states=[TrialState.RUNNING])
            found.extend(one.id for one in running if one.trial_id and one.id not in disturbed)
            return bool(found)

        wait_until("another model is measured", is_found)
        disturbed.add(found[0])
        (measures,) = caught(store, found[:1], lambda folder: samples(folder.parent))
        assert samples(Path(store.attempts_of(found[0])[0].directory).parent) < SAMPLES
        return measures

    def taken_over() -> Fence:
        store.release_lease(fence)
        taken = store.claim("next", 60)
        assert taken is not None
        return Fence(taken.id, taken.epoch)

    with runner(settings, fence, ray) as process:
        next_one().kill()
        next_one()
        kill_actor(fence.sweep_id)
        next_one()
        process.kill()
        process.wait(PATIENT_S)
    fence = taken_over()
    with runner(settings, fence, ray) as process:
        measures = next_one()
        store.request_pause(fence.sweep_id)
        measures.go_on_once_told_to_stop()
        assert process.wait(PATIENT_S) == 0
    assert store.get_sweep(fence.sweep_id).state is SweepState.PAUSED
    assert not store.list_attempts(fence.sweep_id, running_only=True)
    store.request_resume(fence.sweep_id)
    fence = taken_over()
    run_out(settings, store, fence, ray)
    evaluations = store.list_evaluations(fence.sweep_id)
    assert {one.state for one in evaluations} == {TrialState.SUCCEEDED}
    assert {one.id: one.attempts for one in evaluations} == {
        one.id: 2 if one.id in disturbed else 1 for one in evaluations
    }
    assert len(disturbed) == 4
    assert contents(store, fence.sweep_id) == contents(store, undisturbed.sweep_id)
    told = [event for event in store.list_events(fence.sweep_id) if event.type == "evaluation.measured"]
    assert len(told) == len({(event.data["evaluation_id"], event.data["benchmark"]) for event in told})


def by_model(store: Store, sweep_id: str) -> dict[tuple[Any, ...], dict[str, Any]]:
    """Return results by number instead of id of the config: ids differ with the benchmarks that a spec names."""
    numbers = {config.id: config.number for config in store.list_configs(sweep_id)}
    return {(numbers[key[0]], *key[1:]): content for key, content in contents(store, sweep_id).items()}


@pytest.mark.long
def test_a_benchmark_added_to_a_finished_sweep_gives_what_it_would_have_given_in_its_spec(
    settings: Settings, store: Store, ray: Mapping[str, str]
) -> None:
    fence = submit_and_claim(store, measured_sweep(space={"loss.beta1": [0.5]}))
    run_out(settings, store, fence, ray)
    named = by_model(store, fence.sweep_id)
    store.set_sweep_state(fence, SweepState.SUCCEEDED)
    store.release_lease(fence)
    alone = {"names": ["expressions"], "samples": 12}
    fence = submit_and_claim(store, measured_sweep(space={"loss.beta1": [0.5]}, benchmarks=alone))
    run_out(settings, store, fence, ray)
    store.set_sweep_state(fence, SweepState.SUCCEEDED)
    store.release_lease(fence)
    trials = store.list_trials(fence.sweep_id)
    asked = {"names": ["arithmetic"], "samples": 12}
    opened = SweepService(store, settings).add_benchmarks(fence.sweep_id, asked)
    assert opened.state is SweepState.QUEUED
    taken = store.claim("next", 60)
    assert taken is not None
    run_out(settings, store, Fence(taken.id, taken.epoch), ray)
    assert by_model(store, fence.sweep_id) == named
    assert store.list_trials(fence.sweep_id) == trials
    told = [event for event in store.list_events(fence.sweep_id) if event.type == "evaluation.measured"]
    assert len(told) == len(named)
