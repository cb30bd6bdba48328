"""The card of the best config: why it, why not the others, and what it takes to run it again."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from sweep_service.report.build import build
from sweep_service.report.facts.report_inputs import ReportInputs
from sweep_service.report.model import BestConfig
from sweep_service.settings import Settings
from sweep_service.store import Store
from sweep_service.sweep.records import Checkpoint, Stage
from sweep_service.worker.reports.contents import gather
from tests import stored_sweeps as sweeps
from tests.unit.sweep_service.report.report_sweeps import on_seeds, sweep_inputs
from trainers.command_line import load_config


def card(inputs: ReportInputs) -> BestConfig:
    return build(inputs).best


def test_the_command_trains_the_first_confirm_trial(tmp_path: Path) -> None:
    inputs = sweep_inputs()
    best = card(inputs)
    assert best.seeds == [10, 11, 12, 13]
    (tmp_path / "best.yaml").write_text(best.yaml)
    threads, *python, file, setting = best.command.split()
    assert python == ["python", "-m", "trainers"]
    config = load_config(tmp_path / file, [setting])
    trial = next(t for t in inputs.trials if t.config_id == best.config_id and t.seed == 10)
    assert threads == f"OMP_NUM_THREADS={trial.threads}"
    stored = next(config for config in inputs.configs if config.id == best.config_id)
    assert config.model_dump(mode="json") == {**stored.training, "seed": 10}
    assert yaml.safe_load(best.yaml)["seed"] == 10
    assert f"# This is the confirm trial {trial.id}." in best.yaml


def test_without_a_confirm_stage_it_trains_the_first_tune_trial() -> None:
    best = card(sweep_inputs(on_seeds((3, 5), confirm=())))
    assert best.command.endswith("seed=3")
    assert best.seeds == []


def test_it_trains_with_as_many_processes_and_threads_as_the_trial() -> None:
    training = {"rollout": {"prompts_per_minibatch": 8}}
    best = card(sweep_inputs({"resources": {"cpus": 4, "processes": 2}, "training": training}))
    assert best.command == "OMP_NUM_THREADS=2 python -m trainers best.yaml seed=10 --processes 2"


def test_at_most_eight_others() -> None:
    spec = {"space": {"loss.beta1": [0.0, 0.1, 0.2, 0.3, 0.4], "loss.beta2": [0.5, 0.75, 1.0]}}
    assert len(card(sweep_inputs(spec)).others) == 8


def test_checkpoints_are_those_of_its_confirm_trials() -> None:
    inputs = sweep_inputs()
    best = card(inputs)
    checkpoints = tuple(
        Checkpoint(trial_id=trial.id, attempt=1, step=240, path=f"/storage/{trial.id}/step-240", time=1e9)
        for trial in inputs.trials
    )
    found = card(replace(inputs, checkpoints=checkpoints)).checkpoints
    assert best.checkpoints == []
    assert [(checkpoint.seed, checkpoint.stage, checkpoint.step) for checkpoint in found] == [
        (seed, Stage.CONFIRM, 240) for seed in (10, 11, 12, 13)
    ]
    assert found[0].path == f"/storage/{found[0].trial_id}/step-240"


def test_mlflow_links_are_those_of_its_confirm_trials() -> None:
    inputs = sweep_inputs()
    best = card(inputs)
    runs = {trial.mlflow_run_id for trial in inputs.trials if trial.config_id == best.config_id and trial.seed >= 10}
    assert {url.rpartition("/")[2] for url in best.mlflow_urls} == runs
    assert card(replace(inputs, mlflow_url=None)).mlflow_urls == []


def test_provenance_says_what_is_known_and_what_is_not() -> None:
    versions = {"torch": "2.13.0", "sweep-service": "0.1.0"}
    found = card(replace(sweep_inputs(), versions=versions, provenance={"commit": "abc123"})).provenance
    assert found["code"] == "sweep-service 0.1.0, commit abc123 (as installed where this report was built)"
    assert found["packages"] == "torch 2.13.0 (as installed there)"
    assert found["trained with"].startswith("python ")
    assert "trained with" not in card(replace(sweep_inputs(), trained_with={})).provenance
    assert found["spec"] == f"sha256:{sweep_inputs().sweep.spec_digest}"
    assert found["data"].startswith("made by the code from the task's settings, sha256:")
    assert found["machine"].startswith("1 CPU thread, no GPU a trial")
    assert "no commit known" in card(sweep_inputs()).provenance["code"]


def test_the_packages_that_the_config_trained_with_are_named_with_all_their_versions() -> None:
    inputs = sweep_inputs()
    own = [trial.id for trial in inputs.trials if trial.config_id == card(inputs).config_id]
    noted = {own[0]: [{"torch": "2", "brief-answers": "1 (ab)"}, {"torch": "2", "brief-answers": "2 (cd)"}]}
    others = {trial.id: [{"torch": "3"}] for trial in inputs.trials if trial.id not in own}
    found = card(replace(inputs, trained_with=noted | others)).provenance
    assert found["trained with"] == "brief-answers 1 (ab) and 2 (cd), torch 2"


def test_the_best_file_of_a_program_is_what_it_read_and_the_command_runs_as_it_stands(tmp_path: Path) -> None:
    program = (
        "import json, sys; c = json.load(open(sys.argv[2])); open(sys.argv[4] + '/done', 'w').write(str(c['seed']))"
    )
    spec: dict[str, Any] = {
        "trainer": {"command": [sys.executable, "-c", program], "steps": 480, "baseline": {"loss.beta1": 0.1}},
        "training": {"loss": {"beta1": 0.0, "beta2": 1.0}},
        "baselines": {"ppo_clip": False, "dapo": False, "matched": False},
    }
    inputs = sweep_inputs(spec)
    best = card(inputs)
    (tmp_path / "best.yaml").write_text(best.yaml)
    assert json.loads(best.yaml) == {"seed": 10, "steps": 480, "loss": best_loss(inputs, best.config_id)}
    subprocess.run(best.command, shell=True, check=True, cwd=tmp_path)
    assert (tmp_path / "run" / "done").read_text() == "10"
    unknown = card(replace(inputs, trained_with={})).provenance
    assert unknown["program"].endswith("of which no version is recorded")
    noted = {trial.id: [{"mine": "3.1"}] for trial in inputs.trials}
    known = card(replace(inputs, trained_with=noted)).provenance
    assert known["trained with"] == "mine 3.1"
    assert "no version is recorded" not in known["program"]


def best_loss(inputs: ReportInputs, config_id: str) -> dict[str, Any]:
    return next(config.settings["loss"] for config in inputs.configs if config.id == config_id)


def test_the_digest_of_a_data_file_is_given_where_it_was_found() -> None:
    spec: dict[str, Any] = {
        "training": {"task": {"name": "word_problems"}, "model": {"name": "pretrained", "model": "m"}, "steps": 240}
    }
    known = replace(sweep_inputs(spec), provenance={"shop-sums/train": "sha256:12"})
    assert card(known).provenance["data"] == "shop-sums/train, sha256:12 (when this report was built)"
    assert card(sweep_inputs(spec)).provenance["data"] == "shop-sums/train; its digest is not recorded"
    assert card(known).provenance["model"].startswith("models/m of the cache; the digest")


# What is read from the store and from the installation


def test_gather_reads_samples_checkpoints_and_provenance(store: Store, tmp_path: Path) -> None:
    task = {"name": "word_problems", "validation": {"benchmark": "arithmetic"}}
    sweep, fence = sweeps.start(store, training={"steps": 16, "task": task})
    for trial in store.list_trials(sweep.id):
        attempt = store.start_attempt(fence, trial.id, "/data/{attempt}")
        sample = {"prompt": "7=", "completion": f"seed {trial.seed}", "reward": None}
        events: list[dict[str, Any]] = [
            {"type": "samples", "time": 1.0, "step": 16, "samples": [sample]},
            {"type": "checkpoint", "time": 1.0, "step": 16, "path": "/data/1/step-16"},
            {"type": "problems", "time": 1.0, "digest": "one", "names": ["a", "b"]},
            *(
                event
                | (
                    {"problems": {"digest": "one", "judged": 4, "right": [1, 3]}}
                    if "evaluation" in event["type"]
                    else {}
                )
                for event in sweeps.training_events(1, 16)
            ),
        ]
        sweeps.ingest(store, fence, attempt, events)
        store.finish_attempt(fence, attempt, sweeps.Ending.SUCCEEDED, None, 3)
    probe = store.start_probe(fence, "shape", "H100", {}, gpus=1)
    store.mark_probe(fence, probe, 1800.0)
    store.lose_probe(fence, 0.0)
    inputs = gather(store, sweep.id, Settings(home=tmp_path, commit="abc"))
    assert inputs.probe_gpu_hours == 0.5
    assert len(inputs.checkpoints) == len(inputs.trials)
    assert {sample.completion for sample in inputs.samples} == {"seed 0"}
    assert len(inputs.samples) == len(inputs.configs)
    assert inputs.provenance["commit"] == "abc"
    assert inputs.provenance["shop-sums/train"].startswith("sha256:")
    last = inputs.sweep.spec.objective.last
    assert [counts.right for counts in inputs.problem_counts] == [(1, 3)] * last * len(inputs.trials)
    report = build(inputs)
    assert report.samples[0].items[0].reward is None
    assert report.best.provenance["data"].endswith("; benchmarks/arithmetic; its digest is not recorded")


def test_the_commit_is_the_one_checked_out(store: Store, tmp_path: Path) -> None:
    sweep, _ = sweeps.start(store)
    commit = gather(store, sweep.id, Settings(home=tmp_path)).provenance.get("commit")
    assert commit is None or len(commit) == 40
