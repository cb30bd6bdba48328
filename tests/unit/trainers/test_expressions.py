import random

import pytest

from trainers.config import ExpressionsTask
from trainers.tasks import Expressions, Problem
from trainers.tasks.base import prompts_of_run
from trainers.tasks.expressions import value_of

TASK = Expressions(ExpressionsTask())


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("31+14", 45),
        ("60-15", 45),
        ("3+40+2", 45),
        ("1+1+1+42", 45),
        ("100-55", 45),
        ("007+38", 45),
        ("1-3", -2),
        ("45", None),  # no operation
        ("+45", None),
        ("31+14+", None),
        ("31++14", None),
        ("31+-14", None),
        ("1+1+1+1+41", None),  # five terms
        ("1000-955", None),  # four digits
        ("31 + 14", None),
        ("31+14\n", None),
        ("31+14=45", None),
        ("٣+٤", None),  # digits, but not ours
        ("9*5", None),
        ("", None),
        ("__import__('os')", None),
    ],
)
def test_only_short_sums_and_differences_have_a_value(expression: str, value: int | None) -> None:
    assert value_of(expression) == value


@pytest.mark.parametrize(
    ("completion", "truncated", "reward"),
    [("31+14", False, 1.0), ("31+15", False, 0.0), ("31+14", True, 0.0), ("31+14<pad>", False, 0.0), ("", False, 0.0)],
)
def test_a_whole_right_answer_earns_one_and_everything_else_nothing(
    completion: str, truncated: bool, reward: float
) -> None:
    assert TASK.reward(Problem("45=", "45"), completion, truncated=truncated) == reward


@pytest.mark.parametrize("config", [ExpressionsTask(), ExpressionsTask(smallest=0, largest=999)])
def test_the_warm_start_is_taught_right_answers_only(config: ExpressionsTask) -> None:
    task, random_numbers = Expressions(config), random.Random(0)
    for _ in range(2000):
        prompt, answer = task.solved_problem(random_numbers)
        assert task.reward(Problem(prompt, prompt[:-1]), answer, truncated=False) == 1.0, (prompt, answer)


def test_validation_problems_are_not_trained_on() -> None:
    training, validation = set(TASK.training), set(TASK.validation)
    assert not training & validation
    assert {int(problem.answer) for problem in training | validation} == set(range(2, 100))
    assert [problem.answer for problem in TASK.validation[:3]] == ["6", "11", "16"]


def test_prompts_are_permutations_that_a_longer_run_only_extends() -> None:
    order = prompts_of_run(num_problems=7, num_prompts=25, seed=3)
    assert len(order) == 25
    assert [sorted(order[start : start + 7]) for start in (0, 7, 14)] == [list(range(7))] * 3
    assert order[:7] != order[7:14]
    assert prompts_of_run(7, 60, seed=3)[:25] == order
    assert prompts_of_run(7, 25, seed=4) != order
