"""From a run's folders to a model folder that anybody loads, and that gives the run's numbers."""

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from transformers import AutoModelForCausalLM, AutoTokenizer

from tests.fork_server import forked
from tests.integration.trainers.trainer_runs import SMALL, Run, run, run_so_far, small_config
from trainers.config import TrainingConfig, with_params
from trainers.errors import CheckpointError, ConfigError
from trainers.export import export
from trainers.policy.checkpoints import find_best
from trainers.policy.model_folder import model_digest
from trainers.process.events import EventWriter, read_events
from trainers.training.evaluate_model import evaluate_model
from trainers.training.train import train

SAMPLES = {"evaluation__samples_per_problem": 32}  # enough for some to be right
LORA = {"model__lora": {"rank": 4, "alpha": 8}, "optimizer__learning_rate": 5e-3}


@pytest.fixture(scope="module")
def full(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run that keeps the best model, and of its last step the model alone."""
    return train_as_a_trial(small_config(**SAMPLES, keep_best=True), tmp_path_factory.mktemp("full"), cache)


@pytest.fixture(scope="module")
def adapters(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    config = small_config(**LORA, **SAMPLES, keep_best=True)
    return train_as_a_trial(config, tmp_path_factory.mktemp("adapters"), cache)


def train_as_a_trial(config: TrainingConfig, output: Path, cache: Path, resume_from: Path | None = None) -> Run:
    with EventWriter(output / "events.jsonl") as events:
        outcome = train(config, output, events, cache=cache, resume_from=resume_from, model_only=True)
    return Run(outcome, read_events(output / "events.jsonl"), output)


def config_of(ran: Run) -> TrainingConfig:
    return TrainingConfig.model_validate(ran.of("started")[0]["config"])


def last_evaluation(ran: Run) -> dict[str, Any]:
    return ran.of("evaluation")[-1]["metrics"]


def test_an_exported_model_gives_the_runs_last_evaluation_to_the_last_digit(
    full: Run, cache: Path, tmp_path: Path
) -> None:
    found = export(full.output / "step-16", tmp_path / "model")
    assert evaluate_model(config_of(full), tmp_path / "model", cache).metrics == last_evaluation(full)
    assert 0 < last_evaluation(full)["eval/avg_at_k"] < 1  # else it would say little
    assert found == {
        "parameters": sum(tensor.numel() for tensor in full.weights(16).values()),
        "dtype": "float32",
        "bytes": sum(file.stat().st_size for file in (tmp_path / "model").iterdir()),
        "merged": False,
    }


def test_an_exported_model_loads_as_any_other_and_samples_as_evaluations_do(full: Run, tmp_path: Path) -> None:
    export(full.output / "step-16", tmp_path / "model")
    model: Any = AutoModelForCausalLM.from_pretrained(tmp_path / "model")
    tokenizer: Any = AutoTokenizer.from_pretrained(tmp_path / "model")
    for name, tensor in full.weights(16).items():
        assert torch.equal(model.state_dict()[name], tensor), name
    assert model.config.use_cache
    sampling = model.generation_config
    assert (sampling.do_sample, sampling.temperature, sampling.top_p, sampling.top_k) == (True, 1.0, 1.0, 0)
    assert sampling.max_new_tokens == config_of(full).rollout.max_completion_tokens
    ids = tokenizer("7=", return_tensors="pt")
    assert model.generate(**ids).shape[1] > ids["input_ids"].shape[1]
    names = {file.name for file in (tmp_path / "model").iterdir()}
    assert names == {
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    }
    for name in names - {"model.safetensors"}:
        assert "/" + str(tmp_path.parts[1]) not in (tmp_path / "model" / name).read_text(encoding="utf-8"), name


def test_adapters_are_merged_into_their_base_or_written_alone(adapters: Run, cache: Path, tmp_path: Path) -> None:
    checkpoint, config = adapters.output / "step-16", config_of(adapters)
    assert evaluate_model(config, checkpoint, cache).metrics == last_evaluation(adapters)
    assert export(checkpoint, tmp_path / "merged")["merged"]
    merged = evaluate_model(config, tmp_path / "merged", cache).metrics["eval/avg_at_k"]
    assert merged == pytest.approx(last_evaluation(adapters)["eval/avg_at_k"], abs=0.05)  # a token may flip
    alone = export(checkpoint, tmp_path / "alone", adapter=True)
    assert (alone["merged"], alone["dtype"]) == (False, "float32")
    assert evaluate_model(config, tmp_path / "alone", cache).metrics == last_evaluation(adapters)
    halved = export(checkpoint, tmp_path / "halved", dtype="bfloat16")
    model: Any = AutoModelForCausalLM.from_pretrained(tmp_path / "halved")
    assert model.dtype is torch.bfloat16
    assert halved["bytes"] < 0.7 * sum(file.stat().st_size for file in (tmp_path / "merged").iterdir())


def test_adapters_alone_name_their_base_as_others_find_it(adapters: Run, cache: Path, tmp_path: Path) -> None:
    (base,) = cache.glob("tiny-qwen2-????????????????")
    record, commit = base / "catalog.json", "0123456789abcdef0123456789abcdef01234567"
    record.write_text(json.dumps({"origin": {"repository": "some/model", "revision": commit}}), encoding="utf-8")
    try:
        export(adapters.output / "step-16", tmp_path / "alone", adapter=True)
    finally:
        record.unlink()
    named = json.loads((tmp_path / "alone" / "adapter_config.json").read_text(encoding="utf-8"))
    assert (named["base_model_name_or_path"], named["revision"]) == ("some/model", commit)


@pytest.mark.parametrize("kind", ["full", "adapters"])
def test_the_best_model_is_kept_and_gives_the_number_that_it_is_kept_for(
    kind: str, cache: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    ran: Run = request.getfixturevalue(kind)
    best = find_best(ran.output)
    assert best is not None
    values = {event["step"]: event["metrics"]["eval/avg_at_k"] for event in ran.of("evaluation") if event["step"]}
    assert best.value == max(values.values()) == values[best.step]
    assert [(event["step"], event["value"]) for event in ran.of("best")][-1] == (best.step, best.value)
    as_then = config_of(ran).model_copy(update={"steps": best.step})
    assert evaluate_model(as_then, best.path, cache).metrics["eval/avg_at_k"] == best.value
    export(best.path, tmp_path / "model")


def test_a_finished_trial_leaves_models_only_and_keeping_them_changes_no_number(
    full: Run, cache: Path, tmp_path: Path
) -> None:
    plain = run(small_config(**SAMPLES), tmp_path / "plain", cache)
    assert plain.metrics() == full.metrics()
    assert [event["metrics"] for event in plain.of("evaluation")] == [e["metrics"] for e in full.of("evaluation")]
    for name, tensor in plain.weights(16).items():
        assert torch.equal(tensor, full.weights(16)[name]), name
    assert (plain.output / "step-16" / "optimizer.pt").is_file()
    best = find_best(full.output)
    assert best is not None
    assert {entry.name for entry in full.output.iterdir()} == {"events.jsonl", "step-16", best.path.name}
    files = {file.name for file in (full.output / "step-16").iterdir()}
    assert not {"optimizer.pt", "scheduler.pt", "rng_state.pth"} & files


def test_a_trial_that_ended_before_it_could_say_so_only_says_so(full: Run, cache: Path, tmp_path: Path) -> None:
    again = train_as_a_trial(config_of(full), tmp_path / "again", cache, full.output / "step-16")
    assert [event["type"] for event in again.events] == ["started", "finished"]
    (summary,) = [event["summary"] for event in again.of("finished")]
    first = full.of("finished")[0]["summary"]
    clocks = {"time/train_s"}
    assert {k: v for k, v in summary.items() if k not in clocks} == {k: v for k, v in first.items() if k not in clocks}


def test_a_run_that_goes_on_elsewhere_keeps_the_best_of_both_parts(full: Run, cache: Path, tmp_path: Path) -> None:
    config = small_config(**SAMPLES, keep_best=True, kept_checkpoints=9)
    first = run(config, tmp_path / "first", cache, stopping=lambda: run_so_far(tmp_path / "first").steps_done >= 9)
    assert first.outcome == "STOPPED"
    second = run(config, tmp_path / "second", cache, resume_from=tmp_path / "first" / f"step-{first.steps_done}")
    whole, found = find_best(full.output), find_best(second.output)
    assert whole is not None
    assert found is not None
    assert (found.step, found.value) == (whole.step, whole.value)
    assert (second.output / f"best-{found.step}").is_dir()


def test_what_cannot_be_exported_is_refused_and_leaves_nothing(full: Run, tmp_path: Path) -> None:
    checkpoint = full.output / "step-16"
    (tmp_path / "there").mkdir()
    for target, options, said in (
        (tmp_path / "there", {}, "there exists already"),
        (tmp_path / "no" / "model", {}, "is not a directory; make it first"),
        (tmp_path / "model", {"adapter": True}, "holds a whole model, not adapters"),
    ):
        with pytest.raises(ConfigError, match=said):
            export(checkpoint, target, **options)
    with pytest.raises(CheckpointError, match="was not written by a run"):
        export(full.output, tmp_path / "model")
    assert [entry.name for entry in tmp_path.iterdir()] == ["there"]


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("run_state.json", "[]"),
        ("run_state.json", "null"),
        ("run_state.json", "[" * 100_000),
        ("config.json", "{"),
        ("model.safetensors", "x"),
    ],
)
def test_a_checkpoint_with_a_broken_file_is_refused(full: Run, tmp_path: Path, file: str, content: str) -> None:
    checkpoint = shutil.copytree(full.output / "step-16", tmp_path / "step-16")
    assert (checkpoint / file).exists()
    (checkpoint / file).write_text(content)
    with pytest.raises((CheckpointError, ConfigError)):
        export(checkpoint, tmp_path / "model")
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"base_model_name_or_path": "HERE"}'])
def test_adapters_of_no_whole_model_are_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "adapter_config.json").write_text(content.replace("HERE", str(tmp_path)))
    (tmp_path / "adapter_model.safetensors").touch()
    with pytest.raises(ConfigError, match=r"names no base model|holds adapters itself"):
        model_digest(tmp_path)


@pytest.mark.long
def test_the_command_line_exports_and_evaluates(
    full: Run, forks: Mapping[str, str], cache: Path, tmp_path: Path
) -> None:
    environment = forked(forks, "trainers.export", "trainers")
    command = [sys.executable, "-m", "trainers.export", str(full.output / "step-16"), str(tmp_path / "model")]
    exported = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert exported.returncode == 0, exported.stderr
    assert json.loads(exported.stdout)["dtype"] == "float32"
    (tmp_path / "run.yaml").write_text(
        yaml.safe_dump(with_params(SMALL, {"seed": 0, "evaluation.samples_per_problem": 32})), encoding="utf-8"
    )
    command = [sys.executable, "-m", "trainers", str(tmp_path / "run.yaml"), "--evaluate", str(tmp_path / "model")]
    command += ["--cache", str(cache), "--json"]
    evaluated = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert evaluated.returncode == 0, evaluated.stderr
    assert json.loads(evaluated.stdout)["metrics"] == last_evaluation(full)
    assert not (tmp_path / "runs").exists()
