import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainers.grading.latex_forms import as_latex


@pytest.mark.parametrize(
    ("text", "latex"),
    [
        ("½", r"\frac{1}{2}"),
        ("1½", r"1\frac{1}{2}"),
        ("1⁄2", "1/2"),
        ("⅟2", "⅟2"),
        ("√2", r"\sqrt{2}"),
        ("2√(x+1)", r"2\sqrt{x+1}"),
        ("∛27/∜16", r"\sqrt[3]{27}/\sqrt[4]{16}"),
        ("√½", r"√\frac{1}{2}"),
        ("x¹⁰", "x^{10}"),
        ("10⁻³", "10^{-3}"),
        ("a₁₂²", "a_{12}^{2}"),
        ("３／４", "3/4"),
        ("90°", r"90^\circ "),
        ("(-∞, 3]∪{5}", r"(-\infty , 3]\cup {5}"),
        ("2πr", r"2\pi r"),
        ("λ", r"\lambda "),
        ("Ω", "Ω"),
        ("−5", "-5"),
        ("–5", "-5"),
        ("x – 1", "x - 1"),
        ("3–5", "3–5"),
        ("3①", "3①"),
        ("x^2–9", "x^2-9"),
        ("3–2x", "3-2x"),
        ("5‐1 a", "5-1 a"),
        ("90º", r"90^\circ "),
        ("ℝ∖ℤ", r"\mathbb{R}∖\mathbb{Z}"),
        ("ϕ", r"\phi "),
        (r"\varphi+\varepsilon+\varnothing", r"\phi+\epsilon+\varnothing"),
        ("-0.1(6)", r"-\frac{15}{90}"),
        (r"0.\dot{3}4", r"0.\dot{3}4"),
        ("é", "é"),
        (r"0.\overline{36}", r"\frac{36}{99}"),
        (r"-1.2\bar{3}", r"-\frac{111}{90}"),
        (r"0.\dot{3}", r"\frac{3}{9}"),
        (r"0.\dot{1}4285\dot{7}", r"\frac{142857}{999999}"),
        ("0.1(6)", r"\frac{15}{90}"),
        ("0.3\N{COMBINING OVERLINE}", r"\frac{3}{9}"),
        ("2.5(x)", "2.5(x)"),
        ("f(0.5(3))", "f(0.5(3))"),
        (r"\overline{AB}", r"\overline{AB}"),
        (r"0.\overline{" + "3" * 51 + "}", r"0.\overline{" + "3" * 51 + "}"),
    ],
)
def test_one_form_for_what_is_the_same(text: str, latex: str) -> None:
    assert as_latex(text) == latex


@given(st.text(max_size=30))
def test_a_text_in_latex_stays_as_it_is(text: str) -> None:
    assert as_latex(as_latex(text)) == as_latex(text)


@pytest.mark.timeout(20)
@pytest.mark.parametrize("text", ["√" * 300_000, "√(" * 200_000, "½" * 300_000, "0." * 300_000, r"1.2\dot" * 100_000])
def test_a_long_text_takes_no_longer_than_its_length(text: str) -> None:
    as_latex(text)
