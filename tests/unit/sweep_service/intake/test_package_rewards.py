"""A sweep says which packages its rewards need, and a plan says where one cannot be used."""

from pathlib import Path
from typing import Any

from sweep_service.intake.spec_check import parse_spec
from sweep_service.intake.whole_check import missing_rewards
from sweep_service.runner.trainer_process import needed_packages
from sweep_service.service import SweepService
from sweep_service.settings import Settings
from sweep_service.store import Store
from tests.unit.trainers.rewards.test_weighted import package as package
from tests.unit.trainers.rewards.test_weighted import site as site
from trainers.config import TrainingConfig


def spec(**task: Any) -> dict[str, Any]:
    training = {"task": {"name": "word_problems"} | task}
    return {"name": "s", "training": training, "space": {"loss.beta1": [0, 0.5]}, "seeds": {"tune": [0]}}


def test_a_trainer_is_told_the_packages_of_all_rewards() -> None:
    rewards = {"reward": "exact", "further_rewards": {"graded": {"weight": 0.5}}}
    training = TrainingConfig.model_validate({"task": {"name": "word_problems"} | rewards})
    assert needed_packages(training) == ("graded-answers==1",)


def test_what_is_missing_at_any_point_is_told_once() -> None:
    raw = spec(reward="graded") | {"space": {"task.reward": ["graded", "elsewhere", "number"]}}
    (warning,) = missing_rewards(parse_spec(raw))
    assert "there is no reward 'elsewhere' on this machine" in warning
    assert warning.endswith(
        "trials run only where it is installed, its settings are checked there, and this plan reads no data"
    )
    assert missing_rewards(parse_spec(spec(reward="graded"))) == []


def test_a_package_that_takes_a_name_of_ours_is_told(site: Path) -> None:
    (site / "graded_answers-1.dist-info" / "entry_points.txt").write_text(
        "[sweeps.rewards]\nexact = graded_answers:Odd\n"
    )
    (warning,) = missing_rewards(parse_spec(spec(reward="exact")))
    assert "more than one reward is named 'exact'" in warning


def test_a_plan_says_that_a_reward_is_unknown_here_and_its_data_unread(store: Store, tmp_path: Path) -> None:
    plan = SweepService(store, Settings(home=tmp_path)).plan(spec(reward="nummber"))
    assert any(
        "there is no reward 'nummber' on this machine; did you mean 'number'?" in text for text in plan.unchecked
    )
