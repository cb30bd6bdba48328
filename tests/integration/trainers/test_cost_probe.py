"""The cost probe of a run, and what a run says whose memory ends."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.integration.trainers.trainer_runs import SMALL, small_config
from tests.waiting import PATIENT_S
from trainers.config import TrainingConfig, with_params
from trainers.cost.cost_figures import PHASES, CostFigures
from trainers.cost.cost_probe import measure_cost
from trainers.process.events import EventWriter, read_events


def probe(config: TrainingConfig, output: Path, cache: Path) -> tuple[CostFigures, list[dict[str, Any]]]:
    with EventWriter(output / "events.jsonl") as events:
        assert measure_cost(config, output, events, cache=cache, stopping=lambda: False) == "SUCCEEDED"
    found = read_events(output / "events.jsonl")
    (cost,) = (event for event in found if event["type"] == "cost")
    return CostFigures.model_validate(cost["figures"]), found


@pytest.mark.long
@pytest.mark.wires
def test_three_updates_at_full_length_with_the_batches_of_the_run(cache: Path, tmp_path: Path) -> None:
    config = small_config(
        rollout__max_completion_tokens=20,
        evaluation__max_completion_tokens=24,
        evaluation__samples_per_problem=40,
        evaluation__sampling_batch=60,
    )
    figures, events = probe(config, tmp_path, cache)
    assert (figures.completion_tokens, figures.eval_completion_tokens) == (20, 24)
    assert figures.prompt_tokens == 3  # of `10=` and `12=`; most prompts have two
    assert figures.sampled_completions == 64  # a whole rollout at once, as in the run
    assert (figures.scored_completions, figures.minibatch_completions, figures.updates) == (48, 16, 3)
    assert (figures.evaluated_completions, figures.validation_problems) == (60, 5)  # of 200: one batch
    assert figures.validation_groups == 5
    assert figures.peak_mib.keys() == set(PHASES)
    assert figures.checkpoint_bytes > figures.model_bytes > 0
    assert [event["phase"] for event in events if event["type"] == "progress"][-len(PHASES) :] == list(PHASES)
    assert {event["type"] for event in events} == {"started", "progress", "data", "cost", "finished"}
    assert {path.name for path in tmp_path.iterdir()} == {"events.jsonl"}


def test_a_round_of_dynamic_sampling_is_sampled_at_once_and_a_switch_of_betas_is_no_obstacle(
    cache: Path, tmp_path: Path
) -> None:
    dynamic = {"prompts_per_round": 12, "max_rounds": 2}
    config = small_config(rollout__dynamic_sampling=dynamic, loss__schedule=[{"step": 8, "beta1": 0, "beta2": 0}])
    assert probe(config, tmp_path, cache)[0].sampled_completions == 12 * 8


def test_parts_of_sampling_are_those_of_the_run(cache: Path, tmp_path: Path) -> None:
    figures, _ = probe(small_config(rollout__sampling_batch=5, evaluation__sampling_batch=7), tmp_path, cache)
    assert figures.sampled_completions == 48  # what three updates need
    assert figures.evaluated_completions == 7


@pytest.mark.long
def test_two_processes_measure_together_on_the_command_line(
    forks: Mapping[str, str], cache: Path, tmp_path: Path
) -> None:
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(SMALL | {"device_batch": 8}), encoding="utf-8")
    command = [sys.executable, "-m", "trainers", "run.yaml", "rollout.prompts_per_minibatch=1", "--probe"]
    command[5:5] = ["evaluation.samples_per_problem=40", "evaluation.sampling_batch=30"]
    command += ["--processes", "2", "--output", "probe", "--cache", str(cache)]
    command.insert(5, "device_batch=4")
    path = os.pathsep.join([str(Path(__file__).parents[3]), forks["PYTHONPATH"]])
    environment = os.environ | forks | {"PYTHONPATH": path}
    run = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, timeout=PATIENT_S)
    assert run.returncode == 0, run.stderr.decode()
    (cost,) = (event for event in read_events(tmp_path / "probe" / "events.jsonl") if event["type"] == "cost")
    figures = CostFigures.model_validate(cost["figures"])
    assert (figures.processes, figures.updates) == (2, 4)  # three prompts cannot be shared by two
    assert figures.sampled_completions == 64
    assert figures.evaluated_completions == 60  # of 80: one batch of each process
    assert b"sampling_s" in run.stdout


# One process imports everything; each run is a fork of it that may take some MiB of address space more than it has.
_LIMITED = """
import json, os, re, resource, sys
from pathlib import Path
from trainers.command_line import main
import trainers.cost.cost_probe
for name, mib, arguments in json.loads(sys.argv[1]):
    if not (pid := os.fork()):
        size = 1024 * int(re.search(r"VmSize:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
        resource.setrlimit(resource.RLIMIT_AS, (size + mib * 2**20,) * 2)
        os._exit(main(["run.yaml", *arguments, "--output", name]))
    print(name, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""


@pytest.mark.long
def test_where_memory_ends_is_told_with_what_helps(cache: Path, tmp_path: Path) -> None:
    changes = {"model.hidden_size": 128, "model.warm_start_steps": 1, "rollout.completions_per_prompt": 32}
    config = with_params(SMALL, changes | {"rollout.max_completion_tokens": 256, "evaluation.probe_completions": 0})
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    probe, wide = ["--probe", "--cache", str(cache)], {"model.hidden_size": 512, "rollout.max_completion_tokens": 32}
    batches = {"rollout.sampling_batch": 64, "rollout.prompts_per_minibatch": 4, "device_batch": 128}
    update = [f"{name}={value}" for name, value in {**wide, **batches}.items()]
    runs = [
        ("unlimited", 1 << 20, [*probe, "rollout.max_completion_tokens=12"]),
        ("sampling", 200, [*probe, "rollout.completions_per_prompt=64"]),
        ("update", 250, [*probe, *update]),  # a probe: what is sampled ends early or late
    ]
    path = os.pathsep.join([str(Path(__file__).parents[3]), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-c", _LIMITED, json.dumps(runs)]
    run = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": path}, capture_output=True, timeout=PATIENT_S
    )
    last = {name: read_events(tmp_path / name / "events.jsonl")[-1] for name, _, _ in runs}
    assert last["unlimited"]["type"] == "finished", run.stderr.decode()
    for phase, words in (
        ("sampling", "rollout.sampling_batch (now a whole round)"),
        ("update", "device_batch (now 128)"),
    ):
        assert (last[phase]["type"], last[phase]["code"]) == ("failed", "OUT_OF_MEMORY"), run.stderr.decode()
        assert last[phase]["message"].startswith(
            "out of memory " + ("while" if phase == "sampling" else "in an update")
        )
        assert words in last[phase]["message"]
    assert run.stdout.decode().split()[-4:] == ["sampling", "1", "update", "1"]
