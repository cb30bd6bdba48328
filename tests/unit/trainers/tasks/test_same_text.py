from itertools import combinations

import pytest

from trainers.tasks.same_text import same_text


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("What is 3 + 4?", "what  is 3+4"),
        ("Find $x^2$ where $x=3$.", "Find x^{2}, where x = 3"),
        (r"Simplify $\dfrac{1}{2}$.", r"Simplify \(\frac{1}{2}\)"),
        (r"\left( 1, 2 \right)", "(1, 2)"),
        ("1 \N{MINUS SIGN} 2", "1 - 2"),
        (
            "\N{LEFT DOUBLE QUOTATION MARK}Tom\N{RIGHT SINGLE QUOTATION MARK}s\N{RIGHT DOUBLE QUOTATION MARK}",
            '"Tom\'s"',
        ),
        ("The \N{LATIN SMALL LIGATURE FI}rst", "the first"),
        (r"5\,\text{cm}", "5 cm"),
        ("\N{FULLWIDTH DIGIT THREE} + 1", "3 + 1"),
        ("f\N{RIGHT SINGLE QUOTATION MARK}(2)", "f'(2)"),
        ("f\N{DOUBLE PRIME}(2)", "f''(2)"),
        ("Find 'x' and 'yes'.", 'Find "x" and "yes"'),
        (
            "I'm at the boys\N{RIGHT SINGLE QUOTATION MARK} school.",
            "I\N{RIGHT SINGLE QUOTATION MARK}m at the boys' school",
        ),
        ("It is so.5 of them", "It is so. 5 of them"),
    ],
)
def test_layout_makes_no_other_problem(one: str, other: str) -> None:
    assert same_text(one) == same_text(other)


def test_numbers_operators_and_words_do() -> None:
    texts = ["3 + 4", "3 - 4", "34", "3 4", "3.4", "3,4", "(3 + 4) * 2", "3 + 4 * 2", "4!", "4", "x_1", "x1", "three"]
    assert all(same_text(one) != same_text(other) for one, other in combinations(texts, 2))


@pytest.mark.parametrize(
    "texts",
    [
        (".5 + 1", "5 + 1", "0.5 + 1"),
        ("3² + 1", "32 + 1", "3 2 + 1", "3₂ + 1", "3^2 + 1"),
        ("1½", "11/2", "11\N{FRACTION SLASH}2", "1 1/2"),
        ("√16", "16"),
        ("f(2)", "f'(2)", "f''(2)"),
        ("Solve y = 0", "Solve y' = 0", "Solve y'' = 0"),
        ("A'B'", "A'B", "AB"),
        ("sin'(x)", "sin(x)"),
        ("3①", "31"),
    ],
    ids=str,
)
def test_a_decimal_point_a_form_of_unicode_and_a_prime_make_another_problem(texts: tuple[str, ...]) -> None:
    assert len({same_text(text) for text in texts}) == len(texts)
