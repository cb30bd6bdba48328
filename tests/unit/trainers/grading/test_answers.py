import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainers.grading.answers import LONGEST_ANSWER, equal_by_text, normal


@pytest.mark.parametrize(
    ("answer", "form"),
    [
        ("5", "5"),
        ("  +005. ", "5"),
        ("-0", "0"),
        ("-07", "-7"),
        ("1,234,567", "1234567"),
        ("1{,}234", "1234"),
        (r"1,\!234", "1234"),
        (r"1\,234", "1234"),
        ("1, 234", "1,234"),  # two numbers
        ("12,34", "12,34"),
        ("+01,234.50", "1234.5"),
        (".5", "0.5"),
        ("-0.0", "0"),
        (r"\dfrac{1} {2}", r"\frac{1}{2}"),
        (r"\tfrac 1 2", r"\frac 1 2"),
        (r"\left( 1 ,\; 2 \right)", "(1,2)"),
        (r"\leftarrow x", r"\leftarrow x"),
        (r"2 \pi  r", r"2\pi r"),
        (r"2\pi\,r", r"2\pi r"),
        (r"x\ y", r"x\ y"),
        (r"\ -x", r"\ -x"),
        (r"\text{ a b }", r"\text{a b}"),
        ("", ""),
    ],
)
def test_the_normal_form_drops_layout(answer: str, form: str) -> None:
    assert normal(answer) == form


@pytest.mark.parametrize(
    ("gold", "answer", "equal"),
    [
        ("73", "073", True),
        ("2125", "2,125", True),
        ("73", "74", False),
        ("-7", "7", False),
        (r"\frac{1}{2}", r" \dfrac{1}{2}. ", True),
        ("12", "1 2", None),
        ("100200", "100, 200", None),
        ("5", "5.0", True),
        ("-0.50", "-.5", True),
        ("1,234.5", "1234.50", True),
        ("0.1234567", "0.1234568", False),
        ("1.0000001", "1.0000002", False),
        ("5", "5.", True),
        ("5", ".", None),
        ("5", "1.2.3", None),
        ("5", r"5\%", None),
        ("5", "x=5", None),
        ("1/2", "1/3", None),
        (r"2\pi r", r"2\pir", None),
        ("5", "\N{ARABIC-INDIC DIGIT FIVE}", None),  # a digit, but none of ours
        ("7" * 5000, "0" + "7" * 5000, True),
        ("7" * 5000, "7" * 5001, False),
        ("x", "x" * LONGEST_ANSWER, None),
        ("x", "x" * (LONGEST_ANSWER + 1), False),
    ],
)
def test_text_decides_only_what_is_certain(gold: str, answer: str, equal: bool | None) -> None:
    assert equal_by_text(gold, answer) is equal


@pytest.mark.timeout(20)
@pytest.mark.parametrize("answer", ["0." + "0" * 300_000 + "x", "." + "0" * 300_000 + "1", "0" * 300_000 + "x"])
def test_a_long_text_takes_no_longer_than_its_length(answer: str) -> None:
    assert equal_by_text("5", answer) is False


@given(st.integers(), st.integers())
def test_integers_are_decided_as_integers_are(gold: int, answer: int) -> None:
    assert equal_by_text(str(gold), f"{answer:+05,}") is (gold == answer)


@given(st.text(alphabet=r"0123456789,.{}\!;: +-leftdfracx", max_size=30))
def test_an_answer_equals_itself_whatever_it_is(answer: str) -> None:
    assert equal_by_text(answer, answer) is True
    assert equal_by_text(answer, f" {answer} ") is True
