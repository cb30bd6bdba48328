r"""Compares problems regardless of their layout.

Layout is: case, white space, compatibility characters of Unicode, punctuation outside numbers, quotation marks, `$`,
braces, and LaTeX that only sets type, such as \left, \dfrac for \frac, or \,. Another wording, other names or numbers,
a translation, or x² for x^2 make another problem.
"""

import re
import unicodedata
from typing import Final

_TOKENS: Final = re.compile(r"\d+(?:[.,]\d+)*|[^\W\d_]+|\\[a-z]+|\\.|\S", re.DOTALL)
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
    tokens = _TOKENS.finditer(unicodedata.normalize("NFKC", problem).casefold())
    return " ".join(_ALIKE.get(token[0], token[0]) for token in tokens if token[0] not in _LAYOUT)
