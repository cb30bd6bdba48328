r"""Reward "exact": the last `\boxed{}`, or else the last line, is the right answer as a text."""

from trainers.grading.latex_forms import as_latex
from trainers.rewards.final_answer import boxed, last_boxed
from trainers.tasks.base import Completion, Judgement, OneByOne, Problem


class ExactReward(OneByOne):
    """1 for the same text up to case, white space, Unicode's layout and a full stop at the end, else 0."""

    def judgement(self, problem: Problem, completion: Completion) -> Judgement:
        """Judge one completion by its box, or else by its last line."""
        text = last_boxed(completion.text)
        if text is None:  # the last line, unless the completion was cut, and its last line with it
            lines = [] if completion.truncated else completion.text.strip().splitlines()
            text = lines[-1] if lines else ""
        answer = normalised(text) or None
        correct = answer is not None and answer == normalised(problem.answer)
        return Judgement(float(correct), correct, answer)

    def unread(self, answer: str) -> str:
        """Return the reason why a right answer cannot be read; empty if it can."""
        if not normalised(answer):
            return "holds no text to compare"
        gold, texts = Problem("", answer), (boxed(answer), answer)
        if any(self.judgement(gold, Completion(text, 1, truncated=False)).correct for text in texts):
            return ""
        return "can stand neither in a box nor in one line"


def normalised(text: str) -> str:
    """Return one form for texts that differ in case, white space, Unicode's layout or a full stop at the end."""
    return " ".join(as_latex(text.casefold()).split()).removesuffix(".").rstrip()
