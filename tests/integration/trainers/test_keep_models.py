"""Models that are kept after given updates, to be measured later."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from tests.integration.trainers.trainer_runs import Run, run_so_far, small_config
from trainers.benchmarks.measure import measure_model
from trainers.benchmarks.measure_request import MeasureRequest
from trainers.command_line import main
from trainers.errors import CheckpointError
from trainers.policy.checkpoints import newest
from trainers.process.events import EventWriter, read_events
from trainers.training.train import train

KEPT = (3, 8, 12)
"""In the middle of a rollout (of 4 updates), with a checkpoint, and between two; the run has 16 updates."""


def trained(
    output: Path,
    cache: Path,
    keep_models: Sequence[int] = (),
    resume_from: Path | None = None,
    stopping: Callable[[], bool] = lambda: False,
    *,
    model_only: bool = False,
    **params: Any,
) -> Run:
    config = small_config(**{"kept_checkpoints": 1, "keep_best": True} | params)
    with EventWriter(output / "events.jsonl") as events:
        outcome = train(
            config,
            output,
            events,
            cache=cache,
            resume_from=resume_from,
            stopping=stopping,
            model_only=model_only,
            keep_models=keep_models,
        )
    return Run(outcome, read_events(output / "events.jsonl"), output)


@pytest.fixture(scope="module")
def plain(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return trained(tmp_path_factory.mktemp("plain"), cache, kept_checkpoints=9)


def models(ran: Run) -> dict[str, dict[str, torch.Tensor]]:
    return {folder.name: load_file(folder / "model.safetensors") for folder in ran.output.glob("model-*")}


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def test_models_are_kept_and_training_is_the_same(plain: Run, cache: Path, tmp_path: Path) -> None:
    ran = trained(tmp_path, cache, KEPT, model_only=True)
    assert ran.metrics() == plain.metrics()
    assert [e["metrics"] for e in ran.of("evaluation")] == [e["metrics"] for e in plain.of("evaluation")]
    assert same(ran.weights(16), plain.weights(16))
    best = ran.of("best")[-1]["path"]
    assert {entry.name for entry in tmp_path.iterdir()} == {
        "events.jsonl",
        "step-16",
        Path(best).name,
        *(f"model-{step}" for step in KEPT),
    }
    assert same(models(ran)["model-8"], plain.weights(8))
    assert not same(models(ran)["model-3"], models(ran)["model-8"])
    events = {event["path"]: event["step"] for event in ran.of("checkpoint") if event.get("model_only")}
    assert events == {str(tmp_path / f"model-{step}"): step for step in KEPT}
    assert not {"optimizer.pt", "rng_state.pth"} & {file.name for file in (tmp_path / "model-8").iterdir()}


def test_a_run_that_was_stopped_keeps_those_that_are_still_to_come(plain: Run, cache: Path, tmp_path: Path) -> None:
    first = trained(tmp_path, cache, KEPT, stopping=lambda: run_so_far(tmp_path).steps_done >= 6)
    assert (first.outcome, first.steps_done, set(models(first))) == ("STOPPED", 7, {"model-3"})
    resumed = trained(tmp_path / "resumed", cache, KEPT, newest(tmp_path))
    assert newest(tmp_path) == tmp_path / "step-7"
    assert set(models(resumed)) == {"model-8", "model-12"}
    assert same(models(resumed)["model-8"], plain.weights(8))
    whole = trained(tmp_path / "whole", cache, KEPT)
    assert same(models(resumed)["model-12"], models(whole)["model-12"])


def test_the_model_of_the_last_step_is_written_once(cache: Path, tmp_path: Path) -> None:
    alone = trained(tmp_path / "alone", cache, (16,), model_only=True)
    assert not models(alone)
    whole = trained(tmp_path / "whole", cache, (16,))
    assert same(models(whole)["model-16"], whole.weights(16))


def test_a_run_that_was_stopped_in_its_last_evaluation_makes_up_for_it(plain: Run, cache: Path, tmp_path: Path) -> None:
    stopped = trained(tmp_path, cache, stopping=lambda: run_so_far(tmp_path).steps_done == 16, model_only=True)
    assert (stopped.outcome, stopped.of("evaluation")[-1]["step"]) == ("STOPPED", 8)
    resumed = trained(tmp_path / "resumed", cache, (), newest(tmp_path), model_only=True)
    assert resumed.outcome == "SUCCEEDED"
    assert [(e["step"], e["metrics"]) for e in resumed.of("evaluation")] == [
        (16, plain.of("evaluation")[-1]["metrics"])
    ]
    assert same(resumed.weights(16), plain.weights(16))
    optimizers = [(ran.output / "step-16" / "optimizer.pt").exists() for ran in (stopped, resumed)]
    assert optimizers == [True, False]


@pytest.mark.parametrize("params", [{}, {"model__lora": {"rank": 4, "alpha": 8}}], ids=["full", "adapters"])
def test_a_kept_model_is_measured_and_not_continued(params: dict[str, Any], cache: Path, tmp_path: Path) -> None:
    ran = trained(tmp_path, cache, KEPT, **params)
    results = [
        measured(folder, tmp_path / "measured" / folder.name, cache)
        for folder in (ran.output / "model-8", ran.output / "model-12", ran.output / "step-16")
    ]
    assert len({event["model_sha256"] for event in results}) == 3
    with pytest.raises(CheckpointError, match=r"model-8 is not a complete checkpoint .* name a folder step-N"):
        trained(tmp_path / "on", cache, resume_from=ran.output / "model-8", **params)


def measured(model: Path, output: Path, cache: Path) -> dict[str, object]:
    benchmarks = [{"name": "expressions", "samples": 1}]
    request = MeasureRequest.model_validate({"model": model, "results": output, "benchmarks": benchmarks})
    with EventWriter(output / "events.jsonl") as events:
        assert measure_model(small_config(), request, output, events, cache=cache) == "SUCCEEDED"
    (event,) = [event for event in read_events(output / "events.jsonl") if event["type"] == "benchmark"]
    return event


@pytest.mark.parametrize(("steps", "wrong"), [("24,x", "'x'"), ("0", "'0'"), ("12,481", "'481'"), ("12,,24", "''")])
def test_numbers_that_are_no_steps_of_the_run_are_refused(
    steps: str, wrong: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "run.yaml").touch()
    assert main([str(tmp_path / "run.yaml"), "--keep-models", steps, "--output", str(tmp_path / "run")]) == 2
    assert f"--keep-models {steps}: {wrong} is not a number of updates from 1 to the run's 480 steps" in (
        capfd.readouterr().err
    )
