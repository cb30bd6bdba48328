"""Task "expressions": the prompt is `N=`, the answer an arithmetic expression of value N, such as `60-15` for 45.

Many answers are right, so a policy has entropy to lose. Imports no torch.
"""

import random
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from trainers.config import ExpressionsTask
from trainers.errors import ConfigError
from trainers.rewards.expression import ExpressionReward
from trainers.tasks.base import Problem
from trainers.tasks.benchmark_texts import benchmark_texts
from trainers.tasks.same_text import same_text
from trainers.tasks.tokenizers import character_tokenizer

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

_CHARACTERS: Final = "0123456789+-="
_LARGEST_SUBTRAHEND: Final = 99


class Expressions(ExpressionReward):
    """The task, over the numbers that its configuration names, judged by the reward `expression`.

    Every `validation_every`-th number is a validation problem and is not trained on with rewards; the supervised warm
    start sees all numbers but those of `apart_from`, which are in no part of the task.

    Raises: ConfigError, if a benchmark is missing or leaves no number to train or to validate on.
    """

    def __init__(self, config: ExpressionsTask, cache: Path) -> None:
        numbers = range(config.smallest, config.largest + 1)
        held_out = set(numbers[config.validation_every - 1 :: config.validation_every])
        texts = benchmark_texts(config.apart_from, cache)
        apart = {number for number in numbers if texts and same_text(expression_problem(number).prompt) in texts}
        self._range, self._apart = numbers, sorted(apart)
        self._taught = [number for number in numbers if number not in apart]
        self.training = [expression_problem(number) for number in self._taught if number not in held_out]
        self.validation = [expression_problem(number) for number in self._taught if number in held_out]
        for part, problems in {"training": self.training, "validation": self.validation}.items():
            if not problems:
                raise ConfigError(
                    f"task.apart_from {', '.join(config.apart_from)}: no number of {config.smallest}..{config.largest} "
                    f"is left for {part}; widen task.smallest and task.largest"
                )

    def tokenizer(self) -> "PreTrainedTokenizerFast":
        """Make a tokenizer with one token a character of prompts and expressions."""
        return character_tokenizer(_CHARACTERS)

    def worked_example(self, random_numbers: random.Random) -> tuple[str, str]:
        """Draw a random prompt and a random right answer: 40 % sums of two, 30 % differences, 30 % sums of three."""
        number = random_numbers.choice(self._taught)
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
        return expression_problem(number).prompt, answer

    @property
    def recipe(self) -> dict[str, Any]:
        """The range of numbers that the task is about, and those of it that it keeps apart, if there are any."""
        apart = {"apart_from": self._apart} if self._apart else {}
        return {"task": "expressions", "smallest": self._range[0], "largest": self._range[-1], **apart}


def expression_problem(number: int) -> Problem:
    """Return the problem of a number: the prompt `45=` with the answer 45."""
    return Problem(f"{number}=", str(number))
