"""Two CPU processes that train one policy: the updates of one process, one record, and an exact resume."""

import os
import socket
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from safetensors.torch import load_file

from tests.proof import plain_loop
from tests.proof.float64 import in_float64
from tests.proof.plain_loop import DeviceBatch
from tests.proof.plain_losses import Rule
from tests.proof.runs import TINY, largest_gap, optimization, policy_folder, tiny_config, weights_of
from tests.proof.trl_comparison import PARITIES
from trainers.config import with_params
from trainers.events import read_events
from trainers.policy import load_policy

TOLERANCE = 1e-10
PROCESSES = 2
RULES = {
    "dapo": Rule("dapo", low=0.95, high=1.08, dual_clip=1.2),
    "cispo": Rule("cispo", low=0.0, high=1.08),
    "gspo": Rule("gspo", low=0.997, high=1.004, per_sequence=True),
}


def together(*arguments: str) -> None:
    """Run a Python command line in two processes that know of each other, as torchrun does."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
    address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(PROCESSES)}
    processes = [
        subprocess.Popen(
            [sys.executable, *arguments],
            env={**os.environ, **address, "RANK": str(rank), "LOCAL_RANK": str(rank), "OMP_NUM_THREADS": "1"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(PROCESSES)
    ]
    try:
        errors = [process.communicate(timeout=200)[1] for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [process.returncode for process in processes] == [0] * PROCESSES, "\n".join(errors)


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> dict[str, list[dict[str, Any]]]:
    """What the two processes of each comparison with TRL left."""
    folder = tmp_path_factory.mktemp("left")
    policy_folder(tiny_config(), cache)
    together("-m", "tests.proof.process", str(folder), str(cache))
    return {
        name: [torch.load(folder / f"{name}-{rank}.pt", weights_only=False) for rank in range(PROCESSES)]
        for name in PARITIES
    }


@pytest.mark.parametrize("name", PARITIES)
def test_loss_and_averaged_gradient_are_trls(name: str, left: dict[str, list[dict[str, Any]]]) -> None:
    for process in left[name]:
        assert len(process["gradient_gaps"]) == 20
        assert len(process["loss_gaps"]) == 40
        assert max(process["loss_gaps"]) < TOLERANCE
        assert max(process["gradient_gaps"]) < TOLERANCE * max(process["largest"])
        print(f"{name}: losses {max(process['loss_gaps']):.1e}, gradients {max(process['gradient_gaps']):.1e}")


@pytest.mark.parametrize("name", PARITIES)
def test_one_process_with_all_the_data_makes_the_same_updates(
    name: str, left: dict[str, list[dict[str, Any]]], cache: Path
) -> None:
    config, processes = tiny_config(loss=PARITIES[name].ours, steps=20), left[name]
    updates: list[list[DeviceBatch]] = [[*processes[0]["batches"][i], *processes[1]["batches"][i]] for i in range(20)]
    assert updates[0][0].completion_ids_BT.tolist() != updates[0][2].completion_ids_BT.tolist()
    rollouts = [updates[start : start + 5] for start in range(0, 20, 5)]
    with in_float64():
        model = load_policy(policy_folder(config, cache), config.model).double()
        assert largest_gap(processes[0]["initial"], weights_of(model)) == 0
        made = list(plain_loop.train(model, lambda _: RULES[name], rollouts, optimization(config)))
    losses = [sum(process["losses"][i] for process in processes) / PROCESSES for i in range(20)]
    gaps = [abs(update.loss - loss) for update, loss in zip(made, losses, strict=True)]
    weights = [largest_gap(process["final"], weights_of(model)) for process in processes]
    print(f"{name}: losses differ by {max(gaps):.1e}, weights by {max(weights):.1e}")
    assert max(gaps) < TOLERANCE
    assert max(weights) < TOLERANCE
    assert weights[0] == weights[1]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> tuple[Path, Path]:
    """The folders of a run by two processes, and of its second half again from a checkpoint."""
    folder = tmp_path_factory.mktemp("runs")
    settings = {"loss.name": "clip_cov", "device_batch": 4, "steps": 15, "checkpoint_every_rollouts": 1}
    settings |= {"evaluation.every_steps": 5, "evaluation.probe_completions": 4}
    (folder / "run.yaml").write_text(yaml.safe_dump(with_params(TINY, settings)), encoding="utf-8")
    command = ["-m", "trainers", str(folder / "run.yaml"), "--cache", str(cache), "--output"]
    together(*command, str(folder / "whole"))
    together(*command, str(folder / "half"), "--resume-from", str(folder / "whole" / "step-10"))
    return folder / "whole", folder / "half"


def test_a_run_by_two_processes_has_one_record(runs: tuple[Path, Path]) -> None:
    events = read_events(runs[0] / "events.jsonl")
    kinds = [event["type"] for event in events if event["type"] not in ("progress", "warning")]
    assert kinds.count("started") == kinds.count("finished") == 1
    assert [event["step"] for event in events if event["type"] == "step"] == list(range(1, 16))
    assert [event["step"] for event in events if event["type"] == "evaluation"] == [0, 5, 10, 15]
    assert [event["step"] for event in events if event["type"] == "checkpoint"] == [5, 10, 15]
    assert events[-1]["outcome"] == "SUCCEEDED"
    assert sorted(folder.name for folder in runs[0].glob("step-*")) == ["step-10", "step-15"]


def test_both_processes_tokens_are_counted(runs: tuple[Path, Path]) -> None:
    steps = [event["metrics"] for event in read_events(runs[0] / "events.jsonl") if event["type"] == "step"]
    totals = [step["tokens/total"] for step in steps]
    assert [later - earlier for earlier, later in pairwise([0, *totals])] == [step["tokens/step"] for step in steps]
    for rollout in (steps[:5], steps[5:10], steps[10:]):
        sequences = 10 * 8
        expected = rollout[0]["completion/length_mean"] * sequences
        assert sum(step["tokens/step"] for step in rollout) == pytest.approx(expected)


def test_a_run_by_two_processes_resumes_exactly(runs: tuple[Path, Path]) -> None:
    whole, half = (read_events(run / "events.jsonl") for run in runs)
    assert next(event for event in half if event["type"] == "started")["resumed_from_step"] == 10
    told = [[_without_clock(event) for event in events if event.get("step", 0) > 10] for events in (whole, half)]
    assert told[0] == told[1]
    weights = [load_file(run / "step-15" / "model.safetensors") for run in runs]
    assert weights[0].keys() == weights[1].keys()
    assert all(torch.equal(tensor, weights[1][name]) for name, tensor in weights[0].items())


def _without_clock(event: dict[str, Any]) -> dict[str, Any]:
    measured = ("time/", "tokens/per_second", "memory/")
    kept = {key: value for key, value in event.items() if key not in ("time", "path")}
    for part in ("metrics", "summary"):
        if part in kept:
            kept[part] = {name: value for name, value in kept[part].items() if not name.startswith(measured)}
    return kept
