"""Counts of judged and right samples by validation problem. Imports no torch."""

import hashlib
from collections.abc import Sequence
from typing import Any, NamedTuple

from trainers.evaluation.problem_parts import digest_name
from trainers.tasks.base import Judgement, Problem


class ProblemCounts(NamedTuple):
    """Counts of one evaluation, problem by problem in the order of `names`."""

    names: list[str]
    """Name of each problem, as `problem_name` makes it."""
    judged: list[int]
    """Number of judged samples of each problem; one on which the judge failed is missing."""
    right: list[int]
    """Number of right ones among them."""

    @property
    def digest(self) -> str:
        """Digest of the names in their order: the problems of all evaluations of a run have the same."""
        return hashlib.sha256("\n".join(self.names).encode()).hexdigest()[:16]

    @property
    def event(self) -> dict[str, Any]:
        """The counts as an event has them, without the names: one number stands for judged counts that are equal."""
        judged = self.judged[0] if len(set(self.judged)) == 1 else self.judged
        return {"digest": self.digest, "judged": judged, "right": self.right}


def count_problems(problems: Sequence[Problem], groups: Sequence[Sequence[Judgement]]) -> ProblemCounts:
    """Count each problem's judgements; `groups` has those of one problem each."""
    judged = [[judgement.correct for judgement in group if judgement.reward is not None] for group in groups]
    return ProblemCounts(
        [problem_name(problem) for problem in problems], [len(group) for group in judged], [sum(g) for g in judged]
    )


def problem_name(problem: Problem) -> str:
    """Name a problem by its content: 12 digits of its prompt's SHA-256 and 4 of its answer's.

    One with a group has 12 of the group's, and 12 of prompt and answer. Names sort by their first 12 digits, which are
    the problem's group (`problem_group`): problems with one prompt are a group, whatever their answers.
    """
    content = f"{problem.prompt}\0{problem.answer}" if problem.group else problem.answer
    return digest_name(problem.group_text, content, grouped=bool(problem.group))
