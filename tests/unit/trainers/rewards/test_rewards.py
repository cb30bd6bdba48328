import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from trainers.errors import GraderError
from trainers.rewards import CheckedReward, Reward
from trainers.rewards.exact import ExactReward
from trainers.rewards.final_answer import last_boxed
from trainers.rewards.number import NumberReward, value_of
from trainers.tasks.base import Completion, Judgement, Problem


def judged(reward: Reward, right: str, text: str, *, truncated: bool = False) -> Judgement:
    (judgement,) = reward.judge([Problem("a prompt", right)], [Completion(text, len(text), truncated)])
    return judgement


# where the answer stands


@pytest.mark.parametrize(
    ("text", "content"),
    [
        (r"\boxed {12}", "12"),
        (r"\boxed{}", ""),
        (r"\boxed{\frac{1}{2}}.", r"\frac{1}{2}"),
        (r"\boxed{\{1,2\}}", r"\{1,2\}"),
        (r"\boxed{\boxed{5}}", "5"),
        (r"\boxed{1} and \boxed{2", ""),
        (r"\boxed{1 and \boxed{2}", "2"),
        (r"} \boxed{3}}", "3"),
        (r"{ \boxed{4}", "4"),
        (r"\boxed{1", ""),
        ("", None),
        (r"\boxed 1", "1"),
        (r"\boxed12.", "12"),
        (r"\boxed -1,000.5, then", "-1,000.5"),
        (r"\boxed B", "B"),
        (r"\boxed Both", None),
        (r"\boxedB", None),
        (r"\fbox{7}", "7"),
        (r"\boxed{\frac{1}{\fbox{2}}}", r"\frac{1}{{2}}"),
        (r"\boxed{1}, then \boxed{2}", "2"),
        (r"$a = \boxed{2}$ or $b_1=\boxed{3}$", "2, 3"),
        (r"\(\boxed{2}\), \(\boxed{3}\), and \(\boxed{4}\)", "2, 3, 4"),
        (r"\boxed{2} \text{ and } \boxed{3}", "2, 3"),
        (r"\boxed{2} \quad \text{or} \quad x=\boxed{3}", "2, 3"),
        (r"\boxed{100};\; \boxed{200}", "100, 200"),
        (r"\boxed{2}" + " " * 50 + r"or \boxed{3}", "2, 3"),
        (r"\boxed{18} or \boxed{18.0}", "18"),
        (r"\boxed{12}$ or $\boxed{\text{12}}", "12"),
        (r"\boxed{}, \boxed{5}", "5"),
        (r"\boxed{5}, \boxed{}", ""),
        (r"\boxed{\boxed{\{1,2\}}}", r"\{1,2\}"),
        (r"\boxed{\fbox{1}+\fbox{2}+\fbox{3}}", "{1}+{2}+{3}"),
        (r"\boxed 5^2", None),
        (r"\boxed 1/2", None),
        (r"\boxed 12x", None),
        (r"\boxed 3\sqrt{2}", None),
        (r"\boxed 2, 3", None),
        (r"\(\boxed 2\), so", "2"),
        (r"\boxed{5} as the \boxed 1 asks", "5"),
        (r"\boxed{2},  \boxed{3}", "2, 3"),
        (r"\boxed{2} \; \boxed{3}", "3"),
        (r"\boxed{3}, \boxed{ 3 }", "3"),
        (r"\boxed{2} \boxed{3}", "3"),
        (r"\boxed{2}. And \boxed{3}", "3"),
    ],
)
def test_the_last_whole_box_counts(text: str, content: str | None) -> None:
    assert last_boxed(text) == content


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "text",
    [
        r"\boxed{" * 200_000,
        "{" * 1_000_000,
        r"\boxed" + " " * 1_000_000,
        r"\boxed{1}, " * 100_000,
        r"\boxed{1}" + " " * 1_000_000 + r"\boxed{2}",
        r"\boxed " + "1," * 500_000,
    ],
)
def test_a_long_text_takes_no_longer_than_its_length(text: str) -> None:
    last_boxed(text)


@given(st.text(alphabet=r"\boxed{} 1", max_size=60), st.text(alphabet="abc 123", max_size=10))
def test_a_box_at_the_end_is_the_last(text: str, content: str) -> None:
    assert last_boxed(f"{text} \\boxed{{{content}}}") == content


# exact


@pytest.mark.parametrize(
    ("right", "text", "answer"),
    [
        ("Blue", r"\boxed{blue}", "blue"),
        ("blue whale", "First a thought.\nBlue  Whale.\n", "blue whale"),
        ("2", "\N{FULLWIDTH DIGIT TWO}", "2"),
        ("Αθήνα", r"\boxed{ΑΘΉΝΑ}", "\\alpha \\theta ή\\nu \\alpha"),
        ("3²", r"\boxed{3²}", "3^{2}"),
        ("3²", r"\boxed{3^{2}}", "3^{2}"),
        ("-5", "\\boxed{\N{EN DASH}5}", "-5"),
        ("12", "no\n12", "12"),
        ("12", r"\boxed{12} is the answer", "12"),
    ],
)
def test_exact_takes_the_same_text(right: str, text: str, answer: str) -> None:
    assert judged(ExactReward(), right, text) == Judgement(1.0, True, answer)


@pytest.mark.parametrize("text", [r"\boxed{13}", "12\n13", "12 13", "012", "", "\n", r"\boxed{}"])
def test_exact_takes_no_other_text(text: str) -> None:
    judgement = judged(ExactReward(), "12", text)
    assert (judgement.reward, judgement.correct) == (0.0, False)


def test_a_line_that_was_cut_is_no_answer_but_a_whole_box_is() -> None:
    for reward in (ExactReward(), NumberReward()):
        assert judged(reward, "12", "12", truncated=True) == Judgement(0.0, False, None)
        assert judged(reward, "12", r"\boxed{12} and th", truncated=True).correct


def test_nothing_is_not_the_right_answer_where_that_has_no_letters() -> None:
    assert not judged(ExactReward(), ".", "").correct


# number


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7", 7),
        ("-7", -7),
        ("\N{MINUS SIGN}7", -7),
        ("1,234,567.50", Fraction("1234567.5")),
        ("12,34", None),  # two numbers
        (".5", Fraction(1, 2)),
        ("007", 7),
        ("3/4", Fraction(3, 4)),
        ("3/0", None),
        (r"\frac{3}{4}", None),
        (r"\sqrt{4}", None),
        ("5!", None),
        ("√16", None),
        ("3²", None),
        ("52₈", None),
        ("±4", None),
        ("2π", None),
        ("18 €", 18),
        ("45°", 45),
        (r"18\text{ coins}", 18),
        (r"18\,\mathrm{m}", 18),
        (r"1,\!000", 1000),
        ("1{,}000", 1000),
        (r"50\%", 50),
        ("3 + 4", None),
        ("x=18", 18),
        ("50%", 50),
        ("\u0663", None),
        ("9" * 101, None),
        ("seven", None),
        ("", None),
    ],
)
def test_a_box_has_the_value_of_its_only_number(text: str, value: Fraction | int | None) -> None:
    assert value_of(text) == value
    assert judged(NumberReward(), "0", rf"1 \boxed{{{text}}} 2").answer == (None if value is None else str(value))


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("She has 3 and 4, so 7.", "7"),
        ("12-5", "5"),
        ("(2)-5", "5"),
        ("it fell to -5", "-5"),
        ("3, then 1,200", "1200"),
        ("9" * 10_000, None),
        ("none", None),
    ],
)
def test_without_a_box_the_last_number_counts(text: str, answer: str | None) -> None:
    assert judged(NumberReward(), "0", text).answer == answer


@given(st.integers(-(10**12), 10**12), st.integers(0, 999))
def test_a_number_is_the_same_however_it_is_written(whole: int, thousandths: int) -> None:
    value = Fraction(whole) + Fraction(thousandths, 1000) * (1 if whole >= 0 else -1)
    sign = "-" if value < 0 else ""
    plain = f"{sign}{abs(whole)}.{thousandths:03}"
    if not (whole == 0 and sign):
        assert value_of(plain) == value
        assert value_of(f"{sign}{abs(whole):,}.{thousandths:03}") == value
        assert value_of(f"{value}") == value
        assert judged(NumberReward(), plain, f"so it is {sign}{abs(whole):,}.{thousandths:03}0.").correct


@given(st.text(max_size=80))
def test_no_text_breaks_the_rewards(text: str) -> None:
    for reward in (ExactReward(), NumberReward()):
        assert judged(reward, "12", text).reward in (0.0, 1.0)


def test_a_right_answer_that_is_no_number_is_an_error_and_not_a_zero() -> None:
    with pytest.raises(GraderError, match=r"'a prompt': '\\\\frac12' is not one number; choose another reward"):
        judged(NumberReward(), r"\frac12", "1/2")


# checks on what a reward says


class Says:
    """A reward that says what it is told to."""

    def __init__(self, answer: Any) -> None:
        self._answer, self.closed = answer, False

    def judge(self, problems: Sequence[Problem], completions: Sequence[Completion]) -> list[Judgement]:
        if isinstance(self._answer, BaseException):
            raise self._answer
        return self._answer

    def close(self) -> None:
        self.closed = True


@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        (RuntimeError("no network"), "the reward mine raised RuntimeError: no network; correct it"),
        (SystemExit(0), "the reward mine raised SystemExit: 0; correct it"),
        ([], "0 judgements of 1 completions"),
        ([Judgement(1.0, True)] * 2, "2 judgements of 1 completions"),
        (None, "NoneType, not a list"),
        ([1.0], "1.0, not a Judgement"),
        ([Judgement("1", True)], "the reward '1', not a float or None"),  # pyright: ignore[reportArgumentType]
        ([Judgement(10**400, True)], "the reward 1000.*, not a float or None"),
    ],
    ids=str,
)
def test_a_reward_that_is_wrong_is_an_error_and_not_a_zero(said: Any, complaint: str) -> None:
    with pytest.raises(GraderError, match=complaint):
        judged(CheckedReward("mine", Says(said)), "12", "12")


@pytest.mark.parametrize("reward", [math.nan, math.inf, -math.inf, None])
def test_a_reward_that_is_not_finite_is_a_failed_judgement(reward: float | None) -> None:
    said = Judgement(reward, True, "12")
    assert judged(CheckedReward("mine", Says([said])), "12", "12") == Judgement(None, False, "12")


@pytest.mark.parametrize("correct", [True, False, None, 1, 0.0, np.bool_(True), torch.tensor(False)])
def test_a_reward_may_say_what_is_correct_with_any_truth_value(correct: Any) -> None:
    judgement = judged(CheckedReward("mine", Says([Judgement(1.0, correct)])), "12", "12")
    assert judgement.correct is bool(correct)


@pytest.mark.parametrize("correct", ["False", 0.5, np.array([1, 0]), [True]])
def test_a_reward_that_says_neither_true_nor_false_is_at_fault(correct: Any) -> None:
    with pytest.raises(GraderError, match=r"the reward mine returned correct .*, not True or False; correct its judge"):
        judged(CheckedReward("mine", Says([Judgement(1.0, correct)])), "12", "12")


@pytest.mark.parametrize(("value", "correct"), [(0.79, False), (0.8, True), (None, False)])
def test_a_threshold_says_what_counts_as_correct(value: float | None, correct: bool) -> None:
    says = Says([Judgement(value, value == 0.79, "12")])
    reward = CheckedReward("mine", says, correct_from=0.8)
    assert judged(reward, "12", "12") == Judgement(value, correct, "12")


def test_what_a_right_reward_says_is_passed_on_and_closed() -> None:
    inner = Says([Judgement(0.25, True, "12", timed_out=True)])
    reward = CheckedReward("mine", inner)
    assert judged(reward, "12", "12") == Judgement(0.25, True, "12", timed_out=True)
    reward.close()
    assert inner.closed
