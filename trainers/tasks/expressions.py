"""Task "expressions": the prompt is `N=`, the answer an arithmetic expression of value N, such as `60-15` for 45.

Many answers are right, so a policy has entropy to lose. Owns the alphabet, the problems, the reward and the text of the
warm start. Imports no torch.
"""

import random
import re
from typing import TYPE_CHECKING, Final

from trainers.config import ExpressionsTask
from trainers.tasks.base import Problem

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

PAD, END, START, UNKNOWN = "<pad>", "<end>", "<start>", "<unknown>"
ALPHABET: Final = (PAD, END, START, UNKNOWN, *"0123456789+-=")

_EXPRESSION: Final = re.compile(r"[0-9]{1,3}(?:[+-][0-9]{1,3}){1,3}")
_TERM: Final = re.compile(r"[+-]?[0-9]+")
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

    def reward(self, problem: Problem, completion: str, *, truncated: bool) -> float:
        """1 if the whole completion is an expression of two to four terms with the right value, else 0."""
        return float(not truncated and value_of(completion) == int(problem.answer))

    def solved_problem(self, random_numbers: random.Random) -> tuple[str, str]:
        """A random prompt and a random right answer: 40 % sums of two, 30 % differences, 30 % sums of three."""
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


def value_of(expression: str) -> int | None:
    """The value of an expression of two to four terms of at most three digits, or None for any other text."""
    if not _EXPRESSION.fullmatch(expression):
        return None
    return sum(int(term) for term in _TERM.findall(expression))


def character_tokenizer() -> "PreTrainedTokenizerFast":
    """A tokenizer over `ALPHABET`, one token a character, made from scratch; it pads on the left, as sampling needs."""
    from tokenizers import Tokenizer, decoders, models
    from transformers import PreTrainedTokenizerFast

    vocabulary = {character: index for index, character in enumerate(ALPHABET)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[], unk_token=UNKNOWN))
    tokenizer.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=END,
        bos_token=START,
        unk_token=UNKNOWN,
        padding_side="left",
        clean_up_tokenization_spaces=False,
    )


def _problem(number: int) -> Problem:
    return Problem(f"{number}=", str(number))
