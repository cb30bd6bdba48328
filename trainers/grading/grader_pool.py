"""Judges many pairs of answers at a time: by text, from memory, and the rest by child processes."""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import wait
from typing import Final, Self, TypeVar

from trainers.errors import GraderError
from trainers.grading.answers import LONGEST_ANSWER, equal_by_text
from trainers.grading.grader_process import GraderProcess, Verdict

Pair = tuple[str, str]
"""Gold answer, and answer to judge."""
_Question = tuple[str, str | None]
"""A pair; or a gold answer and None: can it be read?"""

AnyQuestion = TypeVar("AnyQuestion", bound=_Question)

WINDOW: Final = 200
"""Number of the last questions to children among which failures are counted."""

TOLERATED: Final = WINDOW // 20
"""Largest number of failures in a full window, 5 %; more end the run."""

_LOOK_EVERY_S: Final = 0.05


@dataclass
class GradingCounts:
    """Counts of the answers judged so far, by how they were decided: all but the last add up to their number."""

    exact: int = 0
    """Number decided by text: the same, another number, or too long to be an answer."""
    cached: int = 0
    """Number decided before, or asked more than once in a call."""
    verified: int = 0
    """Number decided by math-verify."""
    timed_out: int = 0
    """Number called wrong because they exceeded the limits of time or memory."""
    failed: int = 0
    """Number left undecided: the child failed twice on them, or cannot read the gold answer."""
    respawned: int = 0
    """Number of children that ended during work and were, or will be, replaced."""


class GraderPool:
    r"""Judges whether the answers of pairs are equal.

    Pairs that neither text nor memory decides go to math-verify in a child process, started on first use. An answer
    that exceeds the limits (say `9^{9^{9^{9}}}`) counts as unequal and timed out, and its child is ended. A child that
    fails is replaced and its question asked once more; after a second failure the verdict is None. Huge exponents are
    not refused beforehand, because that could not tell `2^{2^{2^{1}}}`, which is 16.

    Use it as a context manager or close it, and from one thread, which should live as long as the process.

    Args:
        processes: number of children. Beside training on few cores one is enough.
        deadline_s: processor time for one answer, in seconds. Right answers took up to 0.3 s.
        remembered: number of verdicts kept; the oldest are forgotten first.
        start: makes a child with the given deadline.
    """

    def __init__(
        self,
        processes: int = 1,
        deadline_s: float = 1.0,
        *,
        remembered: int = 1 << 16,
        start: Callable[[float], GraderProcess] = GraderProcess,
    ) -> None:
        assert processes >= 1
        self.counts = GradingCounts()
        self._processes = processes
        self._deadline_s = deadline_s
        self._remembered = remembered
        self._start = start
        self._idle: list[GraderProcess] = []
        self._verdicts: dict[Pair, Verdict] = {}
        self._failures: deque[bool] = deque(maxlen=WINDOW)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """End all children."""
        while self._idle:
            self._idle.pop().close()

    def grade(self, pairs: Sequence[Pair]) -> list[Verdict]:
        """Judge each pair (gold answer, answer), in order.

        Raises:
            GraderError: children cannot start, or failed on more than 5 % of the last 200 answers they got; or a gold
                answer is too long to be read.
        """
        verdicts = [self._decided(pair) for pair in pairs]
        undecided = [pair for pair, verdict in zip(pairs, verdicts, strict=True) if verdict is None]
        answered = self._ask(dict.fromkeys(undecided), self._record)
        self.counts.cached += len(undecided) - len(answered)
        return [verdict or answered[pair] for pair, verdict in zip(pairs, verdicts, strict=True)]

    def read(self, golds: Sequence[str]) -> list[bool]:
        """Tell of each gold answer whether math-verify can read it within the limits.

        Raises: GraderError, if children cannot start.
        """
        answered = self._ask([(gold, None) for gold in dict.fromkeys(golds)], lambda _, __: None)
        return [bool(answered[gold, None].equal) for gold in golds]

    def _decided(self, pair: Pair) -> Verdict | None:
        if len(pair[0]) > LONGEST_ANSWER:
            raise GraderError(
                f"the gold answer {pair[0][:60]!r}... has {len(pair[0])} characters; at most {LONGEST_ANSWER} can be "
                "read: name where the answer stands by task.data.answer_after or answer_boxed, or take the problem out "
                "of the data"
            )
        if verdict := self._verdicts.get(pair):
            self.counts.cached += 1
        elif (equal := equal_by_text(*pair)) is not None:
            self.counts.exact += 1
            verdict = Verdict(equal)
        return verdict

    def _ask(
        self, questions: Iterable[AnyQuestion], record: Callable[[AnyQuestion, Verdict], None]
    ) -> dict[AnyQuestion, Verdict]:
        """Have children answer each question. This ends, because every child replies or is ended at a limit."""
        waiting = deque((question, True) for question in questions)  # True: it may be asked once more
        busy: dict[GraderProcess, tuple[AnyQuestion, bool]] = {}
        answered: dict[AnyQuestion, Verdict] = {}
        try:
            while waiting or busy:
                while waiting and len(busy) < self._processes:
                    grader = self._idle.pop() if self._idle else self._start(self._deadline_s)
                    busy[grader] = waiting.popleft()
                    grader.ask(*busy[grader][0])
                wait([grader.fileno() for grader in busy], _LOOK_EVERY_S)
                for grader, (question, may_retry) in list(busy.items()):
                    verdict = grader.poll()
                    if verdict is None:
                        continue
                    del busy[grader]
                    if grader.ended:
                        self.counts.respawned += 1
                    else:
                        self._idle.append(grader)
                    if verdict.equal is None and grader.ended and may_retry:
                        waiting.append((question, False))
                    else:
                        answered[question] = verdict
                        record(question, verdict)
        finally:
            for grader in busy:  # none, unless this was interrupted
                grader.close()
        return answered

    def _record(self, pair: Pair, verdict: Verdict) -> None:
        self._failures.append(verdict.equal is None)
        if verdict.equal is None:
            self.counts.failed += 1
            if sum(self._failures) > TOLERATED:
                raise GraderError(
                    f"{sum(self._failures)} of the last {len(self._failures)} answers could not be judged "
                    f"(the last one because {verdict.failure}); rewards would be noise: "
                    "check the gold answers, and try `python -m trainers.grading` by hand"
                )
            return
        if verdict.timed_out:
            self.counts.timed_out += 1
        else:
            self.counts.verified += 1
        if len(self._verdicts) >= self._remembered:
            del self._verdicts[next(iter(self._verdicts))]
        self._verdicts[pair] = verdict
