"""The pool with children that only pretend: no process is started."""

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from trainers.errors import GraderError
from trainers.grading import GraderPool, GradingCounts, Verdict
from trainers.grading.answers import LONGEST_ANSWER
from trainers.grading.grader_pool import TOLERATED, WINDOW

RIGHT, WRONG = Verdict(equal=True), Verdict(equal=False)
LATE, UNKNOWN = Verdict(equal=False, timed_out=True), Verdict(equal=None, failure="it was told to")


class Children:
    """Makes children that reply as told by a function of the answer; `LATE` ends a child, None is its death."""

    def __init__(self, verdict: Callable[[str], Verdict | None]) -> None:
        self.verdict = verdict
        self.asked: list[str] = []
        self.alive = self.started = 0
        self.readable, self._other = os.pipe()
        os.write(self._other, b"x")

    def __call__(self, deadline_s: float) -> Any:
        self.started += 1
        self.alive += 1
        return Child(self)

    def close(self) -> None:
        os.close(self.readable)
        os.close(self._other)


class Child:
    def __init__(self, family: Children) -> None:
        self.family = family
        self.ended = False
        self.replies = os.dup(family.readable)

    def fileno(self) -> int:
        return self.replies

    def ask(self, gold: str, answer: str) -> None:
        self.family.asked.append(answer)
        self.answer = answer

    def poll(self) -> Verdict | None:
        verdict = self.family.verdict(self.answer)
        if verdict is None or verdict.timed_out:
            self.close()
        return verdict or Verdict(None, failure="the grader ended")

    def close(self) -> None:
        assert not self.ended
        self.ended = True
        os.close(self.replies)
        self.family.alive -= 1


@pytest.fixture
def family() -> Iterator[Children]:
    children = Children(lambda answer: {"right": RIGHT, "late": LATE, "unknown": UNKNOWN}.get(answer[:7], WRONG))
    yield children
    assert children.alive == 0, "the pool has left a child"
    children.close()


def counted(pool: GraderPool, **expected: int) -> None:
    assert pool.counts == GradingCounts(**expected)


def test_text_decides_without_a_child(family: Children) -> None:
    with GraderPool(start=family) as pool:
        assert pool.grade([("5", "5"), ("5", "6"), ("x", " x ")]) == [RIGHT, WRONG, RIGHT]
        assert pool.grade([]) == []
        counted(pool, exact=3)
    assert family.started == 0


def test_verdicts_come_in_order_and_equal_pairs_are_asked_once(family: Children) -> None:
    pairs = [("1/2", name) for name in ("a", "right", "a", "right", "b", "1/2")]
    with GraderPool(processes=3, start=family) as pool:
        assert pool.grade(pairs) == [WRONG, RIGHT, WRONG, RIGHT, WRONG, RIGHT]
        assert pool.grade(pairs) == [WRONG, RIGHT, WRONG, RIGHT, WRONG, RIGHT]
        counted(pool, exact=2, verified=3, cached=7)
    assert sorted(family.asked) == ["a", "b", "right"]


def test_the_gold_answer_is_part_of_what_is_remembered(family: Children) -> None:
    with GraderPool(start=family) as pool:
        pool.grade([("1/2", "a"), ("1/3", "a")])
        counted(pool, verified=2)


def test_the_oldest_verdicts_are_forgotten(family: Children) -> None:
    with GraderPool(remembered=2, start=family) as pool:
        for answer in ("a", "b", "c", "c", "b", "a"):
            pool.grade([("1/2", answer)])
        counted(pool, verified=4, cached=2)
    assert family.asked == ["a", "b", "c", "a"]


def test_an_answer_that_is_late_costs_a_child_once(family: Children) -> None:
    with GraderPool(start=family) as pool:
        assert pool.grade([("1/2", "late"), ("1/2", "right"), ("1/2", "late")]) == [LATE, RIGHT, LATE]
        assert pool.grade([("1/2", "late")]) == [LATE]
        counted(pool, timed_out=1, verified=1, cached=2, respawned=1)
    assert family.started == 2


def test_a_child_that_dies_is_replaced_and_its_question_asked_again(family: Children) -> None:
    scripts = {"a": iter([None, RIGHT]), "b": iter([WRONG])}
    family.verdict = lambda answer: next(scripts[answer])
    with GraderPool(start=family) as pool:
        assert pool.grade([("1/2", "a"), ("1/2", "b")]) == [RIGHT, WRONG]
        counted(pool, verified=2, respawned=1)


def test_a_second_death_leaves_the_answer_undecided_and_it_is_not_remembered(family: Children) -> None:
    scripts = {"a": iter([None, None, RIGHT])}
    family.verdict = lambda answer: next(scripts[answer])
    with GraderPool(start=family) as pool:
        assert pool.grade([("1/2", "a")]) == [Verdict(None, failure="the grader ended")]
        assert pool.grade([("1/2", "a")]) == [RIGHT]
        counted(pool, failed=1, verified=1, respawned=2)


def test_a_grader_that_says_it_cannot_judge_is_not_asked_again(family: Children) -> None:
    with GraderPool(start=family) as pool:
        assert pool.grade([("1/2", "unknown")]) == [UNKNOWN]
        counted(pool, failed=1)
    assert family.started == 1


@pytest.mark.parametrize("late", [0, WINDOW - TOLERATED - 1])
def test_too_many_failures_end_the_run(family: Children, late: int) -> None:
    with GraderPool(start=family) as pool:
        pool.grade([("1/2", f"unknown{n}") for n in range(TOLERATED)])
        pool.grade([("1/2", f"a{n}") for n in range(late)])
        with pytest.raises(GraderError, match=f"^{TOLERATED + 1} of the last {late + TOLERATED + 1} .* told to.*noise"):
            pool.grade([("1/2", "unknown")])


def test_failures_are_tolerated_where_they_are_few(family: Children) -> None:
    with GraderPool(start=family) as pool:
        for batch in range(3):
            pool.grade([("1/2", f"unknown{batch} {n}") for n in range(TOLERATED)])
            pool.grade([("1/2", f"a{batch} {n}") for n in range(WINDOW - TOLERATED)])
        assert pool.counts.failed == 3 * TOLERATED


def test_an_interruption_leaves_no_child(family: Children) -> None:
    def interrupt(answer: str) -> Verdict:
        raise KeyboardInterrupt

    family.verdict = interrupt
    with GraderPool(processes=2, start=family) as pool, pytest.raises(KeyboardInterrupt):
        pool.grade([("1/2", "a"), ("1/2", "b")])
    assert family.started == 2


def test_a_gold_answer_of_any_length_is_refused_beyond_what_can_be_read(family: Children) -> None:
    def grade(characters: int, pool: GraderPool) -> Sequence[Verdict]:
        return pool.grade([("x" * characters, "right")])

    with GraderPool(start=family) as pool:
        assert grade(LONGEST_ANSWER, pool) == [RIGHT]
        with pytest.raises(GraderError, match="2001 characters"):
            grade(LONGEST_ANSWER + 1, pool)
