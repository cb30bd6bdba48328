r"""Compares problems regardless of their layout.

Layout is: case, white space, compatibility forms of Unicode but for superscripts, subscripts, fractions and circles,
punctuation outside numbers, quotation marks, `$`, braces, and LaTeX that only sets type, such as \left, \dfrac for
\frac, or \,. Another wording, other names or numbers, a prime, a translation, or x² for x^2 make another problem.
"""

import re
from typing import Final

from trainers.grading.unicode_forms import without_layout

_TOKENS: Final = re.compile(r"(?:(?<![\w.])\.)?\d+(?:[.,]\d+)*|[^\W\d_]+|\\[a-z]+|\\.|\S", re.DOTALL)
_APOSTROPHE: Final = "['\N{RIGHT SINGLE QUOTATION MARK}]"
_PRIMES: Final = re.compile(  # f', x'' after a letter alone, unless it is quoted, and sin'(x) before a parenthesis
    rf"(?:(?<=[^\W\d_])(?<![^\W\d_]{{2}})(?<!\B{_APOSTROPHE}.){_APOSTROPHE}+)|(?:(?<=[\w)}}\]]){_APOSTROPHE}+(?=\())"
)
_LAYOUT: Final = {
    *".,;:?\"'`${}",
    *"\N{LEFT SINGLE QUOTATION MARK}\N{RIGHT SINGLE QUOTATION MARK}",
    *"\N{LEFT DOUBLE QUOTATION MARK}\N{RIGHT DOUBLE QUOTATION MARK}",
    *(f"\\{symbol}" for symbol in "()[]{},;:! $"),
    *(
        f"\\{word}"
        for word in ("left", "right", "big", "bigl", "bigr", "displaystyle", "quad", "qquad", "text", "mathrm")
    ),
}
_ALIKE: Final = {"\\dfrac": "\\frac", "\\tfrac": "\\frac", "\N{MINUS SIGN}": "-", "\N{EN DASH}": "-", "\\%": "%"}


def same_text(problem: str) -> str:
    """Return the one form of all texts of the same problem."""
    text = _PRIMES.sub(lambda primes: "\N{PRIME}" * len(primes[0]), without_layout(problem).casefold())
    tokens: list[str] = _TOKENS.findall(text)
    return " ".join([_ALIKE.get(token, token) for token in tokens if token not in _LAYOUT])
