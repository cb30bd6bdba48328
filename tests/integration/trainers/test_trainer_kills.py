"""A run that is ended at seeded moments and started again by the same command is, bit for bit, the run never ended."""

import json
import random
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
import yaml
from safetensors.torch import load_file

from tests.fork_server import forked
from tests.integration.trainers.trainer_runs import SMALL, Run
from tests.waiting import PATIENT_S
from trainers.config import with_params
from trainers.process.events import read_events

pytestmark = pytest.mark.long

STEPS = 48
KILLS = "tests.integration.trainers.trainer_kills"
TERM, KILL = int(signal.SIGTERM), int(signal.SIGKILL)
Moment = tuple[str, int, int]

# how often a run of 48 updates reaches each place, roughly: so the counts below fall into the run
SPANS = {"sampling": 60, "loss": 40, "update": 40, "state": 5, "removal": 3}


def moments(seed: int, number: int) -> list[Moment]:
    chosen = random.Random(seed)
    first = chosen.sample([(place, end) for place in SPANS for end in (KILL, TERM)], number)
    return [(place, chosen.randint(1, SPANS[place] // 2), end) for place, end in first]


def run_until_done(
    folder: Path, cache: Path, planted: list[Moment | None], forks: Mapping[str, str]
) -> tuple[Run, list[int]]:
    folder.mkdir()
    (folder / "run.yaml").write_text(yaml.safe_dump(with_params(SMALL, {"steps": STEPS, "device_batch": 8})))
    (folder / "moments.json").write_text(json.dumps(planted))
    command = [sys.executable, "-m", KILLS, str(folder / "moments.json")]
    command += [str(folder / "run.yaml"), "--resume", "--output", str(folder / "run"), "--cache", str(cache)]
    done = subprocess.run(command, env=forked(forks, KILLS), capture_output=True, timeout=PATIENT_S, check=False)
    assert done.returncode == 0, done.stderr.decode()
    events = read_events(folder / "run" / "events.jsonl")
    return Run(events[-1].get("outcome", ""), events, folder / "run"), json.loads(done.stdout)


@pytest.fixture(scope="module")
def straight(cache: Path, forks: Mapping[str, str], tmp_path_factory: pytest.TempPathFactory) -> Run:
    found, codes = run_until_done(tmp_path_factory.mktemp("straight") / "a", cache, [None], forks)
    assert codes == [0]
    return found


def by_step(run: Run, kind: str) -> list[tuple[int, dict[str, float | None]]]:
    """Every event of a kind, also those of repeated steps, without the machine's metrics."""
    metrics = run.metrics() if kind == "step" else [event["metrics"] for event in run.of(kind)]
    return list(zip((event["step"] for event in run.of(kind)), metrics, strict=True))


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_same_command_continues_bit_for_bit(
    seed: int, straight: Run, cache: Path, forks: Mapping[str, str], tmp_path: Path
) -> None:
    planted = moments(seed, 5)
    ended, codes = run_until_done(tmp_path / "ended", cache, [*planted, None], forks)
    assert codes[-1] == 0, codes
    unfinished = [code for code in codes[:-1] if code in (-KILL, 4)]
    assert len(unfinished) >= 3, f"most moments fall into the run: {planted}, {codes}"
    assert ended.outcome == "SUCCEEDED"
    for kind in ("step", "evaluation"):
        expected = dict(by_step(straight, kind))
        for step, metrics in by_step(ended, kind):
            assert metrics == expected[step], f"{kind} of step {step} after {planted}"
        assert dict(by_step(ended, kind)).keys() == expected.keys()
    weights = load_file(straight.output / f"step-{STEPS}" / "model.safetensors")
    for name, tensor in load_file(ended.output / f"step-{STEPS}" / "model.safetensors").items():
        assert torch.equal(tensor, weights[name]), name
    assert {path.name for path in ended.output.glob("step-*")} == {path.name for path in straight.output.glob("step-*")}
    assert not (ended.output / ".unfinished").exists()
