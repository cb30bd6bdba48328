"""Two CPU processes that train one policy: the updates of one process, one record, and an exact resume."""

import socket
import subprocess
import sys
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from safetensors.torch import load_file

from tests.fork_server import forked
from tests.proof import plain_loop
from tests.proof.float64 import in_float64
from tests.proof.plain_loop import DeviceBatch
from tests.proof.plain_losses import Rule
from tests.proof.process import UPDATES
from tests.proof.runs import TINY, largest_gap, optimization, policy_folder, tiny_config, weights_of
from tests.proof.trl_comparison import PARITIES
from tests.waiting import PATIENT_S
from trainers.config import with_params
from trainers.policy.load_policy import load_policy
from trainers.process.events import read_events

pytestmark = pytest.mark.long

TOLERANCE = 1e-10
PROCESSES = 2
PROCESS = "tests.proof.process"
RULES = {
    "dapo": Rule("dapo", low=0.95, high=1.08, dual_clip=1.2),
    "cispo": Rule("cispo", low=0.0, high=1.08),
    "gspo": Rule("gspo", low=0.997, high=1.004, per_sequence=True),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, cache: Path, forks: Mapping[str, str]) -> Path:
    """Results of two processes that find each other as under torchrun."""
    folder = tmp_path_factory.mktemp("two")
    policy_folder(tiny_config(), cache)
    settings = {"loss.name": "clip_cov", "device_batch": 4, "steps": UPDATES, "checkpoint_every_rollouts": 1}
    settings |= {"evaluation.every_steps": 5, "evaluation.probe_completions": 4}
    (folder / "run.yaml").write_text(yaml.safe_dump(with_params(TINY, settings)), encoding="utf-8")
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
    address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(PROCESSES)}
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", PROCESS, str(folder), str(cache)],
            env=forked(forks, PROCESS) | address | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(PROCESSES)
    ]
    try:
        errors = [process.communicate(timeout=PATIENT_S)[1] for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [process.returncode for process in processes] == [0] * PROCESSES, "\n".join(errors)
    return folder


def left(folder: Path, name: str) -> list[dict[str, Any]]:
    """Results of the comparison of a loss, one of each process."""
    return [torch.load(folder / f"{name}-{rank}.pt", weights_only=False) for rank in range(PROCESSES)]


@pytest.mark.parametrize("name", PARITIES)
def test_loss_and_averaged_gradient_are_trls(name: str, folder: Path) -> None:
    for process in left(folder, name):
        assert len(process["gradient_gaps"]) == UPDATES
        assert len(process["loss_gaps"]) == 2 * UPDATES
        assert max(process["loss_gaps"]) < TOLERANCE
        assert max(process["gradient_gaps"]) < TOLERANCE * max(process["largest"])
        print(f"{name}: losses {max(process['loss_gaps']):.1e}, gradients {max(process['gradient_gaps']):.1e}")


@pytest.mark.parametrize("name", PARITIES)
def test_one_process_with_all_the_data_makes_the_same_updates(name: str, folder: Path, cache: Path) -> None:
    config, (first, second) = tiny_config(loss=PARITIES[name].ours, steps=UPDATES), left(folder, name)
    updates: list[list[DeviceBatch]] = [[*first["batches"][i], *second["batches"][i]] for i in range(UPDATES)]
    assert updates[0][0].completion_ids_BT.tolist() != updates[0][2].completion_ids_BT.tolist()
    rollouts = [updates[:5], updates[5:]]
    with in_float64():
        model = load_policy(policy_folder(config, cache), config.model).double()
        assert largest_gap(first["initial"], weights_of(model)) == 0
        made = list(plain_loop.train(model, lambda _: RULES[name], rollouts, optimization(config)))
    losses = [(first["losses"][i] + second["losses"][i]) / 2 for i in range(UPDATES)]
    gaps = [abs(update.loss - loss) for update, loss in zip(made, losses, strict=True)]
    weights = [largest_gap(process["final"], weights_of(model)) for process in (first, second)]
    print(f"{name}: losses differ by {max(gaps):.1e}, weights by {max(weights):.1e}")
    assert max(gaps) < TOLERANCE
    assert max(weights) < TOLERANCE
    assert weights[0] == weights[1]


def test_a_run_by_two_processes_has_one_record(folder: Path) -> None:
    events = read_events(folder / "whole" / "events.jsonl")
    kinds = [event["type"] for event in events if event["type"] not in ("progress", "warning")]
    assert kinds.count("started") == kinds.count("finished") == 1
    assert [event["step"] for event in events if event["type"] == "step"] == list(range(1, UPDATES + 1))
    assert [event["step"] for event in events if event["type"] == "evaluation"] == [0, 5, 10]
    assert [event["step"] for event in events if event["type"] == "checkpoint"] == [5, 10]
    assert events[-1]["outcome"] == "SUCCEEDED"
    assert sorted(each.name for each in (folder / "whole").glob("step-*")) == ["step-10", "step-5"]


def test_both_processes_tokens_are_counted(folder: Path) -> None:
    steps = [event["metrics"] for event in read_events(folder / "whole" / "events.jsonl") if event["type"] == "step"]
    totals = [step["tokens/total"] for step in steps]
    assert [later - earlier for earlier, later in pairwise([0, *totals])] == [step["tokens/step"] for step in steps]
    for rollout in (steps[:5], steps[5:]):
        sequences = 10 * 8
        expected = rollout[0]["completion/length_mean"] * sequences
        assert sum(step["tokens/step"] for step in rollout) == pytest.approx(expected)


def test_a_run_by_two_processes_resumes_exactly(folder: Path) -> None:
    runs = folder / "whole", folder / "half"
    whole, half = (read_events(run / "events.jsonl") for run in runs)
    assert next(event for event in half if event["type"] == "started")["resumed_from_step"] == 5
    told = [[_without_clock(event) for event in events if event.get("step", 0) > 5] for events in (whole, half)]
    assert told[0] == told[1]
    weights = [load_file(run / "step-10" / "model.safetensors") for run in runs]
    assert weights[0].keys() == weights[1].keys()
    assert all(torch.equal(tensor, weights[1][name]) for name, tensor in weights[0].items())


def _without_clock(event: dict[str, Any]) -> dict[str, Any]:
    measured = ("time/", "tokens/per_second", "memory/")
    kept = {key: value for key, value in event.items() if key not in ("time", "path")}
    for part in ("metrics", "summary"):
        if part in kept:
            kept[part] = {name: value for name, value in kept[part].items() if not name.startswith(measured)}
    return kept
