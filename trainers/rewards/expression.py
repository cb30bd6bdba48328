"""Reward "expression": the whole completion is a sum or difference with the value of the answer, such as `60-15`."""

import re
from typing import Final

from trainers.errors import GraderError
from trainers.tasks.base import Completion, Judgement, OneByOne, Problem

_EXPRESSION: Final = re.compile(r"[0-9]{1,3}(?:[+-][0-9]{1,3}){1,3}")
_TERM: Final = re.compile(r"[+-]?[0-9]+")
_REACHABLE: Final = re.compile(r"[+-]?[0-9]{1,4}")
_LEADING_ZEROS: Final = re.compile(r"\b0+(?=[0-9])")


class ExpressionReward(OneByOne):
    """1 if the whole completion is an expression of two to four terms with the right value, else 0.

    An answer is the expression itself without leading zeros, not its value: the right ones differ, and how many
    different ones a policy still finds is what training may cost. `3+4` and `4+3` are two answers.
    """

    def judgement(self, problem: Problem, completion: Completion) -> Judgement:
        """Judge one completion. Raises: GraderError, if the problem's right answer is not a whole number."""
        if reason := self.unread(problem.answer):
            raise GraderError(
                f"the reward expression cannot judge answers to {problem.prompt!r:.100}: {problem.answer!r:.100} "
                f"{reason}; choose another reward"
            )
        right = int(problem.answer)
        value = None if completion.truncated else value_of(completion.text)
        if value is None:
            return Judgement(reward=0.0, correct=False)
        return Judgement(float(value == right), value == right, answer=_LEADING_ZEROS.sub("", completion.text))

    def unread(self, answer: str) -> str:
        """Return the reason why a right answer cannot be read; empty if it can."""
        return "" if _REACHABLE.fullmatch(answer) else "is not a whole number of at most four digits"


def value_of(expression: str) -> int | None:
    """Return the value of an expression of two to four terms of at most three digits; None for any other text."""
    if not _EXPRESSION.fullmatch(expression):
        return None
    return sum(int(term) for term in _TERM.findall(expression))
