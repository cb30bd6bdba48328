"""A reward whose mistakes end the run instead of training on them."""

from collections.abc import Sequence
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple, cast

from trainers.errors import GraderError
from trainers.tasks.base import Completion, Judgement, Problem, Reward


class Unread(NamedTuple):
    """The reward that cannot read a right answer, and why."""

    reward: str
    reason: str


class CheckedReward:
    """A reward whose mistakes end the run instead of training on them.

    Args:
        correct_from: reward from which a completion counts as correct; None: as the reward says.
    Raises: TypeError, if the reward names its columns in another form than a list.
    """

    def __init__(self, name: str, reward: Reward, correct_from: float | None = None) -> None:
        self._name, self._reward, self.close = name, reward, reward.close
        self._correct_from = correct_from
        own: Any = reward
        columns = own.columns if hasattr(type(own), "columns") or "columns" in vars(own) else ()
        if not isinstance(columns, list | tuple) or not all(isinstance(column, str) for column in columns):
            raise TypeError(f"its columns are {columns!r:.60}, not a list of names")
        self.columns: dict[str, str] = dict.fromkeys(columns, name)
        """Columns of the dataset that it reads beside problem and answer, each with the reward's name."""

    def judge(self, problems: Sequence[Problem], completions: Sequence[Completion]) -> list[Judgement]:
        """Judge as the reward does; a reward that is not finite is a failed judgement.

        Raises: GraderError, if the reward raises or does not return one judgement for each completion.
        """
        try:
            judgements = self._reward.judge(problems, completions)
        except GraderError:
            raise
        except (Exception, SystemExit) as error:  # whatever code of a package does
            raise GraderError(f"the reward {self._name} raised {type(error).__name__}: {error}; correct it") from error
        fault = _fault(judgements, len(completions))
        if fault:
            raise GraderError(f"the reward {self._name} returned {fault}; correct its judge()")
        return [self._counted(judgement) for judgement in judgements]

    def unreadable(self, answers: Sequence[str], cache: Path) -> dict[str, Unread]:
        """Return the right answers that the reward cannot read, by answer; none, if it cannot say.

        Args:
            cache: folder in which it may keep what it learned.
        Raises: GraderError, if the reward raises.
        """
        ask = getattr(self._reward, "unreadable", None)
        try:
            reasons = dict[str, str](ask(answers, cache)) if ask else {}
        except GraderError:
            raise
        except (Exception, SystemExit) as error:  # whatever code of a package does
            raise GraderError(
                f"the reward {self._name} raised {type(error).__name__} in unreadable(): {error}; correct it"
            ) from error
        return {answer: Unread(self._name, str(reason)) for answer, reason in reasons.items()}

    def _counted(self, judgement: Judgement) -> Judgement:
        if judgement.reward is None or not isfinite(judgement.reward):
            return judgement._replace(reward=None, correct=False)
        reward, least = float(judgement.reward), self._correct_from
        return judgement._replace(reward=reward, correct=bool(judgement.correct) if least is None else reward >= least)


def _fault(judgements: object, expected: int) -> str | None:
    if not isinstance(judgements, list):
        return f"{type(judgements).__name__}, not a list"
    if len(judgements) != expected:
        return f"{len(judgements)} judgements of {expected} completions"
    for judgement in judgements:
        if not isinstance(judgement, Judgement):
            return f"{judgement!r:.100}, not a Judgement"
        answer = cast("object", judgement.answer)
        if answer is not None and not isinstance(answer, str):
            return f"the answer {judgement.answer!r:.100}, not a text or None"
        if not _is_truth(judgement.correct):
            return f"correct {judgement.correct!r:.100}, not True or False"
        try:
            isfinite(0.0 if judgement.reward is None else judgement.reward)
        except (TypeError, ValueError, OverflowError):
            return f"the reward {judgement.reward!r:.100}, not a float or None"
    return None


def _is_truth(value: Any) -> bool:
    """True if this is true or false, whatever library made it; None counts as false."""
    try:
        return value is None or value in (0, 1)
    except (RuntimeError, ValueError):  # an array of several
        return False
