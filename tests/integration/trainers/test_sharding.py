"""Weights, gradients and optimizer state in parts: on CPUs, by torch's own FSDP2, the numbers of whole copies."""

import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
import torch
import yaml
from transformers import AutoModelForCausalLM

from tests.fork_server import forked
from tests.integration.trainers.trainer_runs import SMALL, Run, run_so_far
from tests.waiting import PATIENT_S
from trainers.config import with_params
from trainers.process.launch import meeting_place, process_environment

pytestmark = pytest.mark.long

SHARDED = "tests.integration.trainers.sharded_on_cpus"


def two(forks: Mapping[str, str], *arguments: str) -> list[str]:
    """Run `python -m ARGUMENTS` as two processes; what each of them printed."""
    with meeting_place() as place:
        processes = [
            subprocess.Popen(
                [sys.executable, "-m", *arguments],
                env=forked(forks, arguments[0]) | process_environment(rank, 2, place),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for rank in range(2)
        ]
        try:
            said = [process.communicate(timeout=PATIENT_S) for process in processes]
        finally:
            for process in processes:
                process.kill()
    assert [process.returncode for process in processes] == [0, 0], "\n".join(errors for _, errors in said)
    return [out for out, _ in said]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("sharding")
    config = with_params(SMALL, {"device_batch": 8, "model.warm_start_steps": 100})
    (found / "run.yaml").write_text(yaml.safe_dump(config))
    return found


Runs = Callable[[str, str, Sequence[str]], Run]


@pytest.fixture(scope="module")
def run(folder: Path, forks: Mapping[str, str]) -> Runs:
    """Runs a program as two processes, with a folder for its output and further arguments."""

    def run(program: str, output: str, arguments: Sequence[str]) -> Run:
        places = ("--output", str(folder / output), "--cache", str(folder / "cache"))
        two(forks, program, str(folder / "run.yaml"), *arguments, *places)
        return run_so_far(folder / output)

    return run


@pytest.fixture(scope="module")
def copies(run: Runs) -> Run:
    return run("trainers", "copies", [])


def test_a_sharded_run_is_that_of_copies_and_goes_on_from_its_checkpoint(run: Runs, copies: Run) -> None:
    sharding = ["compute.sharding=fsdp", "compute.gradient_checkpointing=true"]
    run(SHARDED, "parts", [*sharding, "steps=8"])
    parts = run(SHARDED, "parts", [*sharding, "--resume"])
    assert [event["step"] for event in parts.of("step")] == list(range(1, 17))
    for found, expected in zip(parts.metrics(), copies.metrics(), strict=True):
        for name in ("loss", "grad_norm", "entropy", "reward/mean", "tokens/step"):
            assert found[name] == pytest.approx(expected[name], rel=1e-4, abs=1e-5), name
    evaluations = [[event["metrics"] for event in run.of("evaluation")] for run in (parts, copies)]
    assert evaluations[0][0] == evaluations[1][0]  # of the same weights
    models = [AutoModelForCausalLM.from_pretrained(run.output / "step-16") for run in (parts, copies)]
    for mine, other in zip(models[0].parameters(), models[1].parameters(), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-3, atol=1e-4)


def test_adapters_in_parts_have_the_initial_model_below_them(run: Runs) -> None:
    changes = ["model.lora={rank: 4}", "terms.kl.coefficient=0.2", "optimizer.learning_rate=0.01", "steps=8"]
    copies = run("trainers", "kl-copies", changes)
    parts = run(SHARDED, "kl-parts", [*changes, "compute.sharding=fsdp"])
    assert copies.metrics()[0]["loss/kl"] == parts.metrics()[0]["loss/kl"] == 0
    for found, expected in zip(parts.metrics(), copies.metrics(), strict=True):
        for name in ("loss", "loss/kl", "kl/reference_k3", "grad_norm"):
            assert found[name] == pytest.approx(expected[name], rel=1e-4, abs=1e-5), name


def test_processes_need_not_sample_equally_many_tokens(forks: Mapping[str, str]) -> None:
    said = two(forks, "tests.integration.trainers.uneven_sampling")
    assert float(said[0]) == float(said[1]) > 0
