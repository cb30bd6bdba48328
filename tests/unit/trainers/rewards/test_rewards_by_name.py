"""Rewards of installed packages, found by the code that finds losses, whose tests have its rules."""

from pathlib import Path

import pytest

from tests import loss_packages
from trainers.config import WordProblemsTask
from trainers.errors import ConfigError
from trainers.rewards import REWARDS, make_reward
from trainers.rewards.exact import ExactReward
from trainers.tasks import Completion, make_task
from trainers.tasks.prompted_problems import PromptedProblems
from trainers.tasks.word_problems import WordProblems

PACKAGE = """
from trainers.tasks.base import Judgement

class Short:
    def judge(self, problems, completions):
        return [Judgement(1 / (1 + len(c.text)), c.text == p.answer) for p, c in zip(problems, completions)]

    def close(self):
        pass

class Demanding:
    def __init__(self, judge):
        pass
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a folder that installed packages are found in."""
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def install(site: Path, name: str, entries: str) -> None:
    loss_packages.install(site, name, entries, PACKAGE, group="sweeps.rewards")


def test_an_installed_package_judges_a_task(site: Path) -> None:
    install(site, "short_answers", "short = short_answers:Short")
    assert REWARDS.names() == ["exact", "expression", "math", "number", "short"]
    task = make_task(WordProblemsTask(reward="short"), site)
    problem = task.training[0]
    judgements = task.judge([problem] * 2, [Completion(problem.answer, 1, False), Completion("yes", 1, False)])
    assert [judgement.reward for judgement in judgements] == [1 / (1 + len(problem.answer)), 0.25]
    assert [judgement.correct for judgement in judgements] == [True, False]
    task.close()


def test_an_unknown_name_is_refused_with_all_that_are_known(site: Path) -> None:
    install(site, "short_answers", "short = short_answers:Short")
    with pytest.raises(ConfigError, match=r"no reward 'shrt' .* known are exact, expression, math, number, short\."):
        make_task(WordProblemsTask(reward="shrt"), site)


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("absent:Short", "ModuleNotFoundError: No module named 'absent'"),
        ("short_answers:Long", "AttributeError: .*'Long'"),
        ("short_answers:Demanding", "TypeError: .*missing 1 required positional argument: 'judge'"),
    ],
)
def test_a_reward_that_cannot_be_made_is_refused_with_its_package(site: Path, target: str, reason: str) -> None:
    install(site, "short_answers", f"short = {target}")
    with pytest.raises(ConfigError, match=rf"'short' of short-answers \({target}\) cannot be made: {reason}"):
        make_reward("short")


def test_our_names_are_found_without_any_package() -> None:
    reward = make_reward("exact")
    assert isinstance(reward._reward, ExactReward)
    reward.close()


@pytest.mark.parametrize("first", [["__init__"], []], ids=["a package", "a namespace package"])
def test_every_file_of_a_package_is_its_code(site: Path, first: list[str]) -> None:
    package = f"answers{len(first)}"
    install(site, "short_answers", f"short = {package}.short:Short")
    (site / package).mkdir()
    for name in (*first, "short", "helper"):
        (site / package / f"{name}.py").write_text(PACKAGE)
    before = REWARDS.code("short")
    (site / package / "helper.py").write_text("")
    assert REWARDS.code("short") != before


def test_problems_as_they_are_asked_name_the_code_that_judges_them(site: Path) -> None:
    install(site, "asked_answers", "short = asked_answers:Short")
    task = WordProblems(WordProblemsTask(reward="short"), site)
    before = PromptedProblems(task, task.tokenizer()).recipe
    (site / "asked_answers.py").write_text(PACKAGE + "\n")
    assert PromptedProblems(task, task.tokenizer()).recipe != before
    task.close()
