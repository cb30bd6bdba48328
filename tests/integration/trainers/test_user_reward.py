"""The reward package of docs/tasks.md, installed as a user would, trains a policy."""

from pathlib import Path

import pytest

from tests.integration.trainers.trainer_runs import run, small_config
from tests.loss_packages import documented_package, pip_install


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    site = tmp_path / "site"
    pip_install(documented_package(tmp_path, "tasks"), site)
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
