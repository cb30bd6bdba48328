r"""Reward "exact": the last `\boxed{}`, or else the last line, is the right answer as a text."""

from collections.abc import Sequence

from trainers.rewards.final_answer import last_boxed, last_line
from trainers.tasks.base import Completion, Judgement, Problem
from trainers.tasks.unicode_forms import without_layout


class ExactReward:
    """1 for the same text up to case, white space, Unicode's layout and a full stop at the end, else 0."""

    def judge(self, problems: Sequence[Problem], completions: Sequence[Completion]) -> list[Judgement]:
        """Judge each completion of the problem beside it."""
        return [_judged(problem, completion) for problem, completion in zip(problems, completions, strict=True)]

    def close(self) -> None:
        """Do nothing: no process is kept running."""


def normalised(text: str) -> str:
    """Return one form for texts that differ in case, white space, Unicode's layout or a full stop at the end."""
    return " ".join(without_layout(text).casefold().split()).removesuffix(".").rstrip()


def _judged(problem: Problem, completion: Completion) -> Judgement:
    text = last_boxed(completion.text)
    text = last_line(completion) if text is None else text
    answer = normalised(text or "") or None
    correct = answer is not None and answer == normalised(problem.answer)
    return Judgement(float(correct), correct, answer)
