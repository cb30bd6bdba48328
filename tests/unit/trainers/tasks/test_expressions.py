import hashlib
import random
from pathlib import Path

import pytest

from tests.unit.trainers.tasks.chats import add_benchmark
from trainers.config import ExpressionsTask
from trainers.errors import ConfigError, GraderError
from trainers.rewards.expression import value_of
from trainers.tasks import Completion, Judgement, Problem
from trainers.tasks.expressions import Expressions

CACHE = Path("absent")
TASK = Expressions(ExpressionsTask(), CACHE)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("31+14", 45),
        ("3+40+2", 45),
        ("1+1+1+42", 45),
        ("007+38", 45),
        ("1-3", -2),
        ("45", None),  # no operation
        ("31+14+", None),
        ("31++14", None),
        ("1+1+1+1+41", None),  # five terms
        ("1000-955", None),  # four digits
        ("31 + 14", None),
        ("31+14\n", None),
        ("٣+٤", None),  # digits, but not ours
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
    task, random_numbers = Expressions(config, CACHE), random.Random(0)
    examples = [task.worked_example(random_numbers) for _ in range(2000)]
    problems = [Problem(prompt, prompt[:-1]) for prompt, _ in examples]
    judgements = task.judge(problems, [Completion(answer, len(answer), truncated=False) for _, answer in examples])
    assert all(judgement.correct for judgement in judgements)


def test_validation_problems_are_not_trained_on() -> None:
    training, validation = set(TASK.training), set(TASK.validation)
    assert not training & validation
    assert {int(problem.answer) for problem in training | validation} == set(range(2, 100))
    assert [problem.answer for problem in TASK.validation[:3]] == ["3", "5", "7"]
    assert (len(training), len(validation)) == (49, 49)


def test_an_answer_that_is_not_a_whole_number_cannot_be_judged() -> None:
    with pytest.raises(
        GraderError, match=r"answers to 'x=': '1/2' is not a whole number of at most four digits; choose another reward"
    ):
        TASK.judge([Problem("x=", "1/2")], [Completion("1+1", 3, truncated=False)])


# apart from benchmarks


def _numbers(task: Expressions) -> list[int]:
    return [int(problem.answer) for problem in [*task.training, *task.validation]]


def _taught(task: Expressions, draws: int) -> list[str]:
    random_numbers = random.Random(0)
    return ["".join(task.worked_example(random_numbers)) for _ in range(draws)]


def test_numbers_of_benchmarks_are_in_no_part_of_the_task(tmp_path: Path) -> None:
    add_benchmark(tmp_path, "own", ["7 =", "12=", "100=", "What is 9?"])
    task = Expressions(ExpressionsTask(apart_from=("own",)), tmp_path)
    assert sorted(_numbers(task)) == [number for number in range(2, 100) if number not in (7, 12)]
    assert task.validation == [problem for problem in TASK.validation if problem.answer != "7"]
    assert {int(text.partition("=")[0]) for text in _taught(task, 5000)} == set(_numbers(task))
    assert task.recipe == TASK.recipe | {"apart_from": [7, 12]}


@pytest.mark.parametrize(("every", "training", "validation"), [(2, 36, 38), (5, 55, 19)])
def test_the_shipped_benchmark_leaves_most_of_both_parts(every: int, training: int, validation: int) -> None:
    task = Expressions(ExpressionsTask(validation_every=every, apart_from=("expressions",)), CACHE)
    assert (len(task.training), len(task.validation)) == (training, validation)


def test_without_benchmarks_the_warm_start_is_what_it_was_before_there_were_any() -> None:
    assert TASK.recipe == {"task": "expressions", "smallest": 2, "largest": 99}
    taught = hashlib.sha256("\n".join(_taught(TASK, 1000)).encode()).hexdigest()
    assert taught.startswith("de756194c32c51dd")  # drawn by the version that knew no apart_from


def test_benchmarks_that_leave_nothing_are_refused(tmp_path: Path) -> None:
    add_benchmark(tmp_path, "own", ["6=", "11="])
    with pytest.raises(ConfigError, match=r"^task\.apart_from own: no number of 2\.\.12 is left for validation; widen"):
        Expressions(ExpressionsTask(validation_every=5, smallest=2, largest=12, apart_from=("own",)), tmp_path)
