"""Task "expressions": the prompt is `N=`, the answer an arithmetic expression of value N, such as `60-15` for 45.

Many answers are right, so a policy has entropy to lose. Imports no torch.
"""

import random
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from trainers.config import ExpressionsTask
from trainers.tasks.base import Completion, Judgement, Problem
from trainers.tasks.tokenizers import character_tokenizer

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

_CHARACTERS: Final = "0123456789+-="
_EXPRESSION: Final = re.compile(r"[0-9]{1,3}(?:[+-][0-9]{1,3}){1,3}")
_TERM: Final = re.compile(r"[+-]?[0-9]+")
_LEADING_ZEROS: Final = re.compile(r"\b0+(?=[0-9])")
_LARGEST_SUBTRAHEND: Final = 99


class Expressions:
    """The task, over the numbers that its configuration names.

    Every `validation_every`-th number is a validation problem and is not trained on with rewards; the supervised warm
    start sees all numbers.
    """

    def __init__(self, config: ExpressionsTask) -> None:
        numbers = range(config.smallest, config.largest + 1)
        self._numbers = numbers
        held_out = set(numbers[config.validation_every - 1 :: config.validation_every])
        self.training = [_problem(number) for number in numbers if number not in held_out]
        self.validation = [_problem(number) for number in numbers if number in held_out]

    def judge(self, problems: Sequence[Problem], completions: Sequence[Completion]) -> list[Judgement]:
        """Reward 1 if the whole completion is an expression of two to four terms with the right value, else 0.

        An answer is the expression itself without leading zeros, not its value: the right ones differ, and how many
        different ones a policy still finds is what training may cost. `3+4` and `4+3` are two answers.
        """
        return [_judged(problem, completion) for problem, completion in zip(problems, completions, strict=True)]

    def tokenizer(self) -> "PreTrainedTokenizerFast":
        """Make a tokenizer with one token a character of prompts and expressions."""
        return character_tokenizer(_CHARACTERS)

    def worked_example(self, random_numbers: random.Random) -> tuple[str, str]:
        """Draw a random prompt and a random right answer: 40 % sums of two, 30 % differences, 30 % sums of three."""
        number = random_numbers.choice(self._numbers)
        kind = random_numbers.random()
        if kind < 0.4:
            first = random_numbers.randint(0, number)
            answer = f"{first}+{number - first}"
        elif kind < 0.7:
            subtrahend = random_numbers.randint(0, min(_LARGEST_SUBTRAHEND, 999 - number))
            answer = f"{number + subtrahend}-{subtrahend}"
        else:
            low, high = sorted((random_numbers.randint(0, number), random_numbers.randint(0, number)))
            answer = f"{low}+{high - low}+{number - high}"
        return _problem(number).prompt, answer

    @property
    def recipe(self) -> dict[str, Any]:
        """The range of numbers that the task is about."""
        return {"task": "expressions", "smallest": self._numbers[0], "largest": self._numbers[-1]}

    def close(self) -> None:
        """Do nothing: no process is kept running."""


def value_of(expression: str) -> int | None:
    """Return the value of an expression of two to four terms of at most three digits; None for any other text."""
    if not _EXPRESSION.fullmatch(expression):
        return None
    return sum(int(term) for term in _TERM.findall(expression))


def _judged(problem: Problem, completion: Completion) -> Judgement:
    value = None if completion.truncated else value_of(completion.text)
    if value is None:
        return Judgement(reward=0.0, correct=False)
    correct = value == int(problem.answer)
    return Judgement(float(correct), correct, answer=_LEADING_ZEROS.sub("", completion.text))


def _problem(number: int) -> Problem:
    return Problem(f"{number}=", str(number))
