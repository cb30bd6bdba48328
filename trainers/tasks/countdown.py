"""Task "countdown": the prompt is `3,7,12>15=`, the answer an expression of value 15 that uses 3, 7 and 12 once each:
`(12-7)*3`.

The hard sibling of "expressions": few answers are right, and most wrong ones look like them. Imports no torch.
"""

import random
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from trainers.config import CountdownTask
from trainers.errors import ConfigError
from trainers.tasks.arithmetic import Expression, combined, number, parsed
from trainers.tasks.base import Completion, Judgement, OneByOne, Problem
from trainers.tasks.tokenizers import character_tokenizer

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

_CHARACTERS: Final = "0123456789,>=+-*/()"
_PATIENCE: Final = 20_000
"""Number of draws in a row without a new problem after which no more are assumed to exist."""


class Countdown(OneByOne):
    """The task, over problems drawn from its configuration's seed; each can be solved, and none comes twice.

    Every `validation_every`-th problem is for validation; neither rewards nor the warm start train on it.
    Raises: ConfigError, if there are fewer problems than the configuration asks for.
    """

    def __init__(self, config: CountdownTask) -> None:
        self._config = config
        problems = _different_problems(config)
        self.validation = problems[config.validation_every - 1 :: config.validation_every]
        self._held_out = {_puzzle(problem) for problem in self.validation}
        self.training = [problem for problem in problems if _puzzle(problem) not in self._held_out]

    def judgement(self, problem: Problem, completion: Completion) -> Judgement:
        """Reward 1 if the whole completion uses each number of the prompt once and has the target's value, else 0.

        An answer is the expression itself without the parentheses that it does not need, whatever its value.
        """
        expression = None if completion.truncated else parsed(completion.text)
        if expression is None:
            return Judgement(reward=0.0, correct=False)
        correct = (tuple(sorted(expression.numbers)), expression.value) == _puzzle(problem)
        return Judgement(float(correct), correct, answer=expression.text)

    def tokenizer(self) -> "PreTrainedTokenizerFast":
        """Make a tokenizer with one token a character of prompts and expressions."""
        return character_tokenizer(_CHARACTERS)

    def worked_example(self, random_numbers: random.Random) -> tuple[str, str]:
        """Draw the prompt of a random problem that is not for validation, and a random right answer."""
        return next(
            (problem.prompt, problem.answer)
            for problem in _drawn(self._config, random_numbers)
            if problem and _puzzle(problem) not in self._held_out
        )

    @property
    def recipe(self) -> dict[str, Any]:
        """The whole configuration, which decides which problems are drawn and which are kept for validation."""
        return {"task": "countdown", **self._config.model_dump()}


def _puzzle(problem: Problem) -> tuple[tuple[int, ...], int]:
    """Return a problem's numbers and target; equal for the same numbers in another order."""
    numbers, target = problem.prompt.removesuffix("=").split(">")
    return tuple(sorted(map(int, numbers.split(",")))), int(target)


def _different_problems(config: CountdownTask) -> list[Problem]:
    different: dict[tuple[tuple[int, ...], int], Problem] = {}
    fruitless = 0
    for problem in _drawn(config, random.Random(config.problem_seed)):
        if problem and (puzzle := _puzzle(problem)) not in different:
            different[puzzle], fruitless = problem, 0
        else:
            fruitless += 1
        if len(different) == config.problems:
            return list(different.values())
        if fruitless == _PATIENCE:
            break
    raise ConfigError(
        f"task.problems: {config.problems} asked for, but only {len(different)} different ones were found with "
        f"{config.numbers} numbers up to {config.largest} and targets up to {config.largest_target}; lower it, or "
        "raise task.numbers, task.largest or task.largest_target"
    )


def _drawn(config: CountdownTask, random_numbers: random.Random) -> Iterator[Problem | None]:
    """Yield without end: a random problem with one solution as its answer, or None where the draw made none."""
    while True:
        numbers = [random_numbers.randint(1, config.largest) for _ in range(config.numbers)]
        try:
            solution = _random_expression(random_numbers.sample(numbers, len(numbers)), random_numbers)
        except ZeroDivisionError:
            yield None
            continue
        fits = solution.value.denominator == 1 and 1 <= solution.value <= config.largest_target
        yield Problem(f"{','.join(map(str, numbers))}>{solution.value}=", solution.text) if fits else None


def _random_expression(numbers: list[int], random_numbers: random.Random) -> Expression:
    """Make an expression with these numbers in this order. Raises: ZeroDivisionError."""
    if len(numbers) == 1:
        return number(numbers[0])
    split = random_numbers.randrange(1, len(numbers))
    left, right = (_random_expression(part, random_numbers) for part in (numbers[:split], numbers[split:]))
    return combined(left, random_numbers.choice("+-*/"), right)
