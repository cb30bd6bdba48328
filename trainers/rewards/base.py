"""The interface of rewards, and the check on their judgements."""

import math
from collections.abc import Sequence
from typing import Protocol

from trainers.errors import GraderError
from trainers.tasks.base import Completion, Judgement, Problem


class Reward(Protocol):
    """Judges completions; made once a run, without arguments."""

    def judge(self, problems: Sequence[Problem], completions: Sequence[Completion]) -> list[Judgement]:
        """Judge each completion of the problem beside it."""
        ...

    def close(self) -> None:
        """End what the judge keeps running."""
        ...


class CheckedReward:
    """A reward whose mistakes end the run instead of training on them."""

    def __init__(self, name: str, reward: Reward) -> None:
        self._name, self._reward = name, reward

    def judge(self, problems: Sequence[Problem], completions: Sequence[Completion]) -> list[Judgement]:
        """Judge as the reward does; a reward that is not finite is a failed judgement.

        Raises: GraderError, if the reward raises or does not return one judgement for each completion.
        """
        try:
            judgements = self._reward.judge(problems, completions)
        except GraderError:
            raise
        except Exception as error:
            raise GraderError(f"the reward {self._name} raised {type(error).__name__}: {error}; correct it") from error
        fault = _fault(judgements, len(completions))
        if fault:
            raise GraderError(f"the reward {self._name} returned {fault}; correct its judge()")
        return [_finite(judgement) for judgement in judgements]

    def close(self) -> None:
        """End what the reward keeps running."""
        self._reward.close()


def _fault(judgements: object, expected: int) -> str | None:
    if not isinstance(judgements, list):
        return f"{type(judgements).__name__}, not a list"
    if len(judgements) != expected:
        return f"{len(judgements)} judgements of {expected} completions"
    for judgement in judgements:
        if not isinstance(judgement, Judgement):
            return f"{judgement!r:.100}, not a Judgement"
        try:
            math.isfinite(0.0 if judgement.reward is None else judgement.reward)
        except (TypeError, ValueError, OverflowError):
            return f"the reward {judgement.reward!r:.100}, not a float or None"
    return None


def _finite(judgement: Judgement) -> Judgement:
    if judgement.reward is None or not math.isfinite(judgement.reward):
        return judgement._replace(reward=None, correct=False)
    return judgement._replace(reward=float(judgement.reward), correct=bool(judgement.correct))
