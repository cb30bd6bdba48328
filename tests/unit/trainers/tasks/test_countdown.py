import random

import pytest
from pydantic import ValidationError

from trainers.config import CountdownTask
from trainers.errors import ConfigError
from trainers.tasks.base import Completion, Judgement, Problem
from trainers.tasks.countdown import Countdown

TASK = Countdown(CountdownTask(problems=300))
CONFIGS = [CountdownTask(), CountdownTask(numbers=2, problems=200), CountdownTask(numbers=5, largest=9, problems=200)]


def content(prompt: str) -> tuple[tuple[int, ...], int]:
    numbers, target = prompt.removesuffix("=").split(">")
    return tuple(sorted(int(number) for number in numbers.split(","))), int(target)


def judged(prompt: str, text: str, *, truncated: bool = False) -> Judgement:
    (judgement,) = TASK.judge([Problem(prompt, "")], [Completion(text, len(text), truncated)])
    return judgement


@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_every_problem_is_of_the_asked_kind_and_comes_with_a_right_answer(config: CountdownTask) -> None:
    task = Countdown(config)
    problems = task.training + task.validation
    assert len(problems) == config.problems
    for problem in problems:
        numbers, target = content(problem.prompt)
        assert len(numbers) == config.numbers
        assert all(1 <= number <= config.largest for number in numbers)
        assert 1 <= target <= config.largest_target
    judgements = task.judge(problems, [Completion(problem.answer, 9, truncated=False) for problem in problems])
    assert all(judgement.correct and judgement.reward == 1.0 for judgement in judgements)


@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_no_validation_problem_is_trained_on_in_any_order_of_its_numbers(config: CountdownTask) -> None:
    task, random_numbers = Countdown(config), random.Random(1)
    training, validation = ([content(problem.prompt) for problem in part] for part in (task.training, task.validation))
    taught = {content(task.worked_example(random_numbers)[0]) for _ in range(1000)}
    assert len(set(training)) + len(set(validation)) == config.problems
    assert len(validation) == config.problems // config.validation_every
    assert not set(validation) & (set(training) | taught)
    assert len(taught) > 100


def test_the_warm_start_is_taught_right_answers_in_no_fixed_order_of_the_numbers() -> None:
    random_numbers, in_order = random.Random(2), 0
    for _ in range(1000):
        prompt, answer = TASK.worked_example(random_numbers)
        assert judged(prompt, answer) == Judgement(1.0, True, answer)
        digits = answer.translate(str.maketrans("+-*/()", "      ")).split()
        in_order += digits == prompt.split(">")[0].split(",")
    assert 100 < in_order < 300  # one order of six, and more where numbers are equal


@pytest.mark.parametrize(
    ("prompt", "text", "correct", "answer"),
    [
        ("3,7,12>15=", "((12-7)*(3))", True, "(12-7)*3"),
        ("3,7,12>15=", "3*(12-7)", True, "3*(12-7)"),
        ("3,7,12>15=", "12+3", False, "12+3"),  # 7 is not used
        ("3,7,12>15=", "7+7+1", False, "7+7+1"),
        ("3,7,12>15=", "(12-7)*3+7-7", False, "(12-7)*3+7-7"),
        ("3,7,12>15=", "12-7*3", False, "12-7*3"),
        ("3,7,12>15=", "12/(7-7)", False, None),
        ("3,7,12>15=", "(12-7)*3 ", False, None),
        ("1,3,3>1=", "1/3*3", True, "1/3*3"),  # values are exact
        ("1,3,9>27=", "9/(1/3)", True, "9/(1/3)"),
        ("7,9,10>1=", "7*9/10", False, "7*9/10"),
        ("5,5,1>11=", "5+5+1", True, "5+5+1"),  # equal numbers must all be used
        ("5,5,1>6=", "5+1", False, "5+1"),
        ("5,5,1>7=", "5+1+1", False, "5+1+1"),
    ],
)
def test_an_answer_uses_each_number_once_and_has_the_target_as_value(
    prompt: str, text: str, correct: bool, answer: str | None
) -> None:
    assert judged(prompt, text) == Judgement(float(correct), correct, answer)


def test_an_answer_that_was_cut_is_wrong() -> None:
    assert judged("3,7,12>15=", "(12-7)*3", truncated=True) == Judgement(0.0, False)


def test_problems_follow_from_the_seed_alone() -> None:
    assert Countdown(CountdownTask(problems=300)).training == TASK.training
    assert Countdown(CountdownTask(problems=300, problem_seed=1)).training != TASK.training


def test_more_problems_than_there_are_is_refused_with_how_many_were_found() -> None:
    with pytest.raises(ConfigError, match=r"task.problems: 100 asked for, but only 7 different ones .* lower it"):
        Countdown(CountdownTask(numbers=2, largest=2, problems=100))
    with pytest.raises(ValidationError, match="none is kept for validation"):
        CountdownTask(problems=4, validation_every=10)


def test_the_recipe_names_what_the_warm_start_follows_from() -> None:
    other = [CountdownTask(problems=300, **{name: 9}) for name in ("largest", "problem_seed", "validation_every")]
    recipes = [TASK.recipe, *(Countdown(config).recipe for config in other)]
    assert len({str(recipe) for recipe in recipes}) == 4
