import random

import pytest

from trainers.config import ExpressionsTask
from trainers.tasks import Completion, Judgement, Problem
from trainers.tasks.expressions import Expressions, value_of

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
    ("text", "truncated", "correct", "answer"),
    [
        ("31+14", False, True, "31+14"),
        ("031+014+0+00", False, True, "31+14+0+0"),
        ("14+31", False, True, "14+31"),
        ("31+15", False, False, "31+15"),
        ("31+14", True, False, None),
        ("31+14<pad>", False, False, None),
        ("", False, False, None),
    ],
)
def test_a_whole_right_answer_earns_one_and_everything_else_nothing(
    text: str, truncated: bool, correct: bool, answer: str | None
) -> None:
    (judgement,) = TASK.judge([Problem("45=", "45")], [Completion(text, len(text), truncated)])
    assert judgement == Judgement(float(correct), correct, answer)


@pytest.mark.parametrize("config", [ExpressionsTask(), ExpressionsTask(smallest=0, largest=999)])
def test_the_warm_start_is_taught_right_answers_only(config: ExpressionsTask) -> None:
    task, random_numbers = Expressions(config), random.Random(0)
    examples = [task.worked_example(random_numbers) for _ in range(2000)]
    problems = [Problem(prompt, prompt[:-1]) for prompt, _ in examples]
    judgements = task.judge(problems, [Completion(answer, len(answer), truncated=False) for _, answer in examples])
    assert all(judgement.correct for judgement in judgements)


def test_the_tokenizer_spells_every_prompt_and_answer() -> None:
    tokenizer, random_numbers = TASK.tokenizer(), random.Random(0)
    for text in ("".join(TASK.worked_example(random_numbers)) for _ in range(200)):
        ids = tokenizer(text)["input_ids"]
        assert len(ids) == len(text)
        assert tokenizer.decode(ids) == text


def test_validation_problems_are_not_trained_on() -> None:
    training, validation = set(TASK.training), set(TASK.validation)
    assert not training & validation
    assert {int(problem.answer) for problem in training | validation} == set(range(2, 100))
    assert [problem.answer for problem in TASK.validation[:3]] == ["6", "11", "16"]
