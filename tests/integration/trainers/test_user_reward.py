"""The reward package of docs/tasks.md, installed as a user would, trains a policy."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.trainers.trainer_runs import run, small_config
from tests.waiting import PATIENT_S

DOCUMENT = Path(__file__).parents[3] / "docs" / "tasks.md"


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    package, site = tmp_path / "package", tmp_path / "site"
    package.mkdir()
    for name, content in re.findall(r"```\w+\n# (\S+)\n(.*?)```", DOCUMENT.read_text(), re.DOTALL):
        (package / name).write_text(content)
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--target", str(site)]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, str(package)], check=True, timeout=PATIENT_S)
    monkeypatch.syspath_prepend(site)
    return site


@pytest.mark.usefixtures("installed")
def test_a_policy_trains_on_the_documented_reward(tmp_path: Path) -> None:
    task = {"name": "word_problems", "reward": "brief", "data": {"suffix": "="}}
    model = {"hidden_size": 16, "num_layers": 1, "num_heads": 2, "warm_start_steps": 20}
    evaluation = {"every_steps": 8, "samples_per_problem": 1, "pass_k": 1, "probe_completions": 0}
    config = small_config(task=task, model=model, evaluation=evaluation, steps=8)
    trained = run(config, tmp_path / "run", tmp_path / "cache")
    assert trained.outcome == "SUCCEEDED"
    rewards = [step["metrics"]["reward/mean"] for step in trained.of("step")]
    assert any(reward not in (0.0, 1.0, None) for reward in rewards), rewards  # no reward of ours lies between
