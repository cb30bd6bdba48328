"""The grader's child compares the answer with the gold one, alike in every run."""

import pytest
import sympy.core.random

from trainers.grading.__main__ import equal


def test_the_gold_answer_is_the_first() -> None:
    assert equal(r"x<2", r"(-\infty,2)")
    assert not equal(r"(-\infty,2)", r"x<2")


def test_random_tests_of_a_pair_are_the_same_in_every_run() -> None:
    states = list[object]()
    for before in (1, 2):
        sympy.core.random.seed(before)
        equal(r"\sin(1)^2+\cos(1)^2", "1")
        states.append(sympy.core.random.rng.getstate())
    assert states[0] == states[1]


@pytest.mark.parametrize(
    ("gold", "answer", "same"),
    [
        (r"\frac{1}{10000001}", r"\frac{1}{10000002}", False),
        (r"\frac{1}{40!}", r"\frac{1}{41!}", False),
        ("2^{-99}", "2^{-98}", False),
        ("10^{-9}", "0", False),
        ("2^{100}", "2^{100}+1", False),
        (r"(\sqrt{2}+\sqrt{3})^2", r"5+2\sqrt{6}", True),
        (r"\sqrt{2}+10^{-9}", r"\sqrt{2}", False),
        ("0", r"(\sqrt{2}+\sqrt{3})^2-5-2\sqrt{6}", True),
        (r"\sqrt{10^{100}+1}", "10^{50}", False),
        (r"\sum_{n=1}^{\infty}\frac{1}{n^2}", r"\frac{\pi^2}{6}", True),
        ("10^{-9}", "0.0", False),
        (r"\frac{1}{10^7}", "0.0000003", False),
        (r"\pi", "3.14159265", True),
        (r"\frac{1}{3}", "0.333333", True),
        ("50", r"50\%", True),
        (r"50\%", "0.5", True),
        (r"50\%", "50", True),
        ("1:00", "1:00", True),
    ],
)
def test_exact_numbers_are_compared_exactly(gold: str, answer: str, same: bool) -> None:
    assert equal(gold, answer) is same
