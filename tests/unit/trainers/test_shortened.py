from pathlib import Path

import pytest

from trainers.config import WordProblemsTask
from trainers.errors import ConfigError
from trainers.tasks import make_task
from trainers.tasks.base import Completion
from trainers.tasks.shortened import Shortened

TASK = make_task(WordProblemsTask(data="shop-sums", reward="number"), Path("no-cache"))


def lengths(problems: list[str]) -> list[int]:
    return [len(ids) for ids in TASK.tokenizer()(problems)["input_ids"]]


def test_long_prompts_are_left_out_of_both_sets_and_told() -> None:
    short = Shortened(TASK, TASK.tokenizer(), 40)
    assert max(lengths([problem.prompt for problem in [*short.training, *short.validation]])) <= 40
    gone = {
        "training": len(TASK.training) - len(short.training),
        "validation": len(TASK.validation) - len(short.validation),
    }
    assert min(gone.values()) > 0
    assert short.left_out == gone
    warning = short.warning()
    assert warning is not None
    assert (warning["code"], warning["evidence"]) == ("LONG_PROMPTS_LEFT_OUT", gone)
    assert f"{gone['training']} training and {gone['validation']} validation problems" in warning["message"]
    assert short.recipe != TASK.recipe


def test_where_nothing_is_long_nothing_is_told() -> None:
    whole = Shortened(TASK, TASK.tokenizer(), 4096)
    assert list(whole.training) == list(TASK.training)
    assert whole.warning() is None


def test_the_rest_of_the_task_stays() -> None:
    short = Shortened(TASK, TASK.tokenizer(), 40)
    problem = short.training[0]
    right = Completion(f"\\boxed{{{problem.answer}}}", 3, truncated=False)
    assert [judgement.reward for judgement in short.judge([problem], [right])] == [1.0]


def test_a_limit_that_leaves_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"task\.max_prompt_tokens: all \d+ prompts are longer than 3 tokens"):
        Shortened(TASK, TASK.tokenizer(), 3)
