"""The reward package of docs/tasks.md, installed as a user would, trains a policy, and its settings are swept."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from sweep_service.auth import read_token
from sweep_service.client import Client
from sweep_service.errors import InvalidSpec
from sweep_service.report import Report
from sweep_service.settings import Settings
from sweep_service.sweep.records import SweepState
from tests.integration.trainers.trainer_runs import run, small_config
from tests.sweep_stack import serving, small_sweep, unused_port
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


TASK = {"name": "word_problems", "data": {"suffix": "="}}
MODEL = {"hidden_size": 16, "num_layers": 1, "num_heads": 2, "warm_start_steps": 20}
EVALUATION = {"every_steps": 8, "samples_per_problem": 1, "pass_k": 1, "probe_completions": 0}


@pytest.mark.usefixtures("installed")
def test_a_policy_trains_on_the_documented_reward(tmp_path: Path) -> None:
    rewards = {"reward": {"name": "number", "weight": 2}, "further_rewards": {"brief": {"length_weight": 0.5}}}
    config = small_config(task=TASK | rewards, model=MODEL, evaluation=EVALUATION, steps=8)
    trained = run(config, tmp_path / "run", tmp_path / "cache")
    assert trained.outcome == "SUCCEEDED"
    parts = ("reward/mean", "reward/of_number", "reward/of_brief")
    for total, number, brief in ([step["metrics"][name] for name in parts] for step in trained.of("step")):
        assert total == pytest.approx(2 * number + brief)
        assert number in (0, 1) or brief not in (0, 1)
    assert any(step["metrics"]["reward/of_brief"] > 0 for step in trained.of("step"))
    evaluation = trained.of("evaluation")[-1]["metrics"]
    assert evaluation["eval/reward_mean"] == pytest.approx(
        2 * evaluation["eval/reward_of_number"] + evaluation["eval/reward_of_brief"]
    )
    (data,) = trained.of("data")
    assert [(reward["name"], reward["weight"], reward["settings"]) for reward in data["rewards"]] == [
        ("number", 2, {}),
        ("brief", 1, {"length_weight": 0.5}),
    ]
    assert data["rewards"][1]["code"][0].startswith("brief-answers 1 ")


@pytest.mark.long
def test_a_setting_of_the_documented_reward_is_swept_to_a_report(
    installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(installed), prepend=":")
    settings = Settings(home=tmp_path / "h", port=unused_port())
    for name, value in settings.environment().items():
        monkeypatch.setenv(name, value)
    name = "task.reward.length_weight"
    raw = small_sweep(
        "brief",
        training={
            "task": TASK | {"reward": {"name": "brief"}},
            "model": MODEL,
            "evaluation": EVALUATION,
            "rollout": {"prompts_per_rollout": 8, "prompts_per_minibatch": 4, "completions_per_prompt": 4},
            "device_batch": 16,
            "steps": 8,
        },
        space={name: [0.1, 1]},
    )
    with serving(settings), Client(settings.url, read_token(settings.token_file)) as client:
        with pytest.raises(InvalidSpec, match=r"-1: Input should be greater than or equal to 0"):
            client.submit(raw | {"space": {name: [0.1, -1]}})
        sweep_id = client.submit(raw).id
        sweep = client.wait(sweep_id, 240)
        report = Report.model_validate_json(client.report(sweep_id, "json", timeout_s=PATIENT_S))
    assert sweep.state is SweepState.SUCCEEDED, sweep.message
    assert {config.params[name] for config in report.configs if config.params.get(name)} == {0.1, 1}
