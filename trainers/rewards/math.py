r"""Reward "math": 1 if the content of the last `\boxed{}` equals the problem's answer to math-verify, else 0.

The published recipes of CE-GPPO reward +1 and -1. Advantages divided by the group's standard deviation are the same
for both; without that division ours are half as large.

Departs from those recipes, which have math-verify search the whole text: an answer counts only in a box, and only in
the last one. That holds for a truncated completion too: it may have stated its answer before it was cut.

Characters of Unicode are read as LaTeX (`trainers/grading/latex_forms.py`). Two written-out decimals, and two exact
values, are compared exactly; an exact value and a decimal to six decimals, as math-verify does it. docs/tasks.md lists
where graders differ, and what this one takes.
"""

from collections.abc import Sequence
from pathlib import Path

from trainers.grading import GraderPool, Verdict, unreadable_golds
from trainers.grading.answers import normal
from trainers.grading.latex_forms import as_latex
from trainers.rewards.final_answer import last_boxed
from trainers.tasks.base import Completion, Judgement, Problem

_NO_ANSWER = Judgement(reward=0.0, correct=False)


class MathReward:
    """Judges completions in a child process of its own; close it.

    Args:
        deadline_s: processor time for one answer, in seconds.
    """

    def __init__(self, deadline_s: float = 1.0) -> None:
        self.graders = GraderPool(deadline_s=deadline_s)

    def judge(self, problems: Sequence[Problem], completions: Sequence[Completion]) -> list[Judgement]:
        """Judge each completion of the problem beside it.

        A judgement's answer is the problem's own where they are equal, else the normal form of what the box holds. Its
        reward is None where the grader failed.

        Raises: GraderError.
        """
        answers = [as_latex(last_boxed(completion.text) or "").strip() for completion in completions]
        pairs = [(as_latex(problem.answer), answer) for problem, answer in zip(problems, answers, strict=True)]
        verdicts = iter(self.graders.grade([pair for pair in pairs if pair[1]]))
        return [_judgement(*pair, next(verdicts)) if pair[1] else _NO_ANSWER for pair in pairs]

    def unreadable(self, answers: Sequence[str], cache: Path) -> dict[str, str]:
        """Return the right answers that cannot be read, each with the reason; what was learned is kept in `cache`."""
        golds = {answer: as_latex(answer) for answer in dict.fromkeys(answers)}
        with self.graders:  # its child ends with the reading; judging may begin much later
            reasons = unreadable_golds(golds.values(), self.graders, cache / "grading")
        return {answer: reasons[gold] for answer, gold in golds.items() if gold in reasons}

    def close(self) -> None:
        """End the child process."""
        self.graders.close()


def _judgement(gold: str, answer: str, verdict: Verdict) -> Judgement:
    if verdict.equal is None:
        return Judgement(reward=None, correct=False, answer=normal(answer))
    return Judgement(
        reward=float(verdict.equal),
        correct=verdict.equal,
        answer=normal(gold if verdict.equal else answer),
        timed_out=verdict.timed_out,
    )
