r"""One LaTeX form for the same mathematics in LaTeX and in characters of Unicode: `½` is `\frac{1}{2}`. Pure.

Every reward reads golds and completions in this form. Time is linear in the length of the text.
"""

import re
import unicodedata
from collections.abc import Iterable
from functools import cache
from itertools import groupby
from typing import Final

from trainers.grading.unicode_forms import without_layout

_COMMANDS: Final = {
    "\N{MULTIPLICATION SIGN}": r"\times ",
    "\N{MIDDLE DOT}": r"\cdot ",
    "\N{DOT OPERATOR}": r"\cdot ",
    "\N{DIVISION SIGN}": r"\div ",
    "\N{PLUS-MINUS SIGN}": r"\pm ",
    "\N{INFINITY}": r"\infty ",
    "\N{LESS-THAN OR EQUAL TO}": r"\le ",
    "\N{GREATER-THAN OR EQUAL TO}": r"\ge ",
    "\N{NOT EQUAL TO}": r"\ne ",
    "\N{ELEMENT OF}": r"\in ",
    "\N{UNION}": r"\cup ",
    "\N{INTERSECTION}": r"\cap ",
    "\N{EMPTY SET}": r"\emptyset ",
    "\N{DEGREE SIGN}": r"^\circ ",
    "\N{MASCULINE ORDINAL INDICATOR}": r"^\circ ",  # stands on more keyboards than the degree sign
    "\N{FRACTION SLASH}": "/",
    "\N{DIVISION SLASH}": "/",
    "\N{MINUS SIGN}": "-",
}
_DOUBLE_STRUCK: Final = str.maketrans(
    {unicodedata.lookup(f"DOUBLE-STRUCK CAPITAL {letter}"): rf"\mathbb{{{letter}}}" for letter in "CHNPQRZ"}
)
"""Names of sets of numbers, which without their form were other letters."""
_GREEK: Final = "GREEK SMALL LETTER "
_SPELLED: Final = {"LAMDA": "lambda"}
_ROOTS: Final = {"\N{SQUARE ROOT}": r"\sqrt", "\N{CUBE ROOT}": r"\sqrt[3]", "\N{FOURTH ROOT}": r"\sqrt[4]"}
_ROOT: Final = re.compile(
    rf"([{''.join(_ROOTS)}])\s*(?:\{{([^{{}}]*)\}}|\(([^()]*)\)|([0-9]+(?:\.[0-9]+)?|[A-Za-z]|\\pi))"
)
_DASH: Final = re.compile("[\u2010\u2012\u2013\u2014]")
_RANGE: Final = re.compile(rf"\s*[0-9.,]+{_DASH.pattern}[0-9.,]+\s*")
_VARIANT: Final = re.compile(r"\\var(?=(?:phi|epsilon|theta|rho|sigma)(?![a-zA-Z]))")
_OVERLINED: Final = re.compile("((?:[0-9]\N{COMBINING OVERLINE})+)")
_REPEATING: Final = re.compile(
    r"(?<![0-9.])([0-9]{0,50})\.([0-9]{0,50})\\(?:overline|bar)\s*\{([0-9]{1,50})\}(?![0-9])"
)
_REPEATING_DOTS: Final = re.compile(
    r"(?<![0-9.])([0-9]{0,50})\.([0-9]{0,50})\\dot\s*\{?([0-9])\}?+(?:([0-9]{0,50})\\dot\s*\{?([0-9])\}?+)?+(?![0-9])"
)
_REPEATING_BRACKETS: Final = re.compile(r"\s*([-+]?)([0-9]{1,50})\.([0-9]{0,50})\(([0-9]{1,50})\)\s*")


def as_latex(text: str) -> str:
    r"""Return the text with its mathematics in LaTeX: signs, fractions, roots, powers, repeating decimals.

    A dash in a text that is two numbers and a dash stays: it may be a range.
    """
    if not text.isascii():
        text = _OVERLINED.sub(lambda found: rf"\overline{{{found[1].replace(chr(0x305), '')}}}", text)
        text = "".join(_with_commands(without_layout(text.translate(_DOUBLE_STRUCK))))
        text = text if _RANGE.fullmatch(text) else _DASH.sub("-", text)
        text = _ROOT.sub(lambda found: f"{_ROOTS[found[1]]}{{{found[2] or found[3] or found[4] or ''}}}", text)
    text = _VARIANT.sub(r"\\", text)
    if "." in text:
        text = _REPEATING.sub(lambda found: _fraction(*found.groups()), text)
        text = _REPEATING_DOTS.sub(lambda found: _fraction(found[1], found[2], "".join(found.groups("")[2:])), text)
        if found := _REPEATING_BRACKETS.fullmatch(text):
            text = found[1] + _fraction(*found.groups()[1:])
    return text


def _with_commands(text: str) -> Iterable[str]:
    """Yield the parts of a text, in which superscripts and subscripts that follow each other are one part."""
    for place, characters in groupby(text, key=_place):
        part = "".join(characters)
        if place:
            yield f"{place}{{{unicodedata.normalize('NFKD', part).translate(_MINUS)}}}"
        else:
            yield "".join(map(_command, part))


_MINUS: Final = {ord("\N{MINUS SIGN}"): "-"}


@cache
def _place(character: str) -> str:
    """Return the sign of LaTeX for the place of a superscript or subscript; an empty text for any other character."""
    if character in _COMMANDS:
        return ""
    form = unicodedata.decomposition(character).partition(" ")[0]
    return {"<super>": "^", "<sub>": "_"}.get(form, "")


@cache
def _command(character: str) -> str:
    """Return a character in LaTeX; itself, if it has no other form there."""
    if character.isascii() or character in _COMMANDS:
        return _COMMANDS.get(character, character)
    if unicodedata.decomposition(character).startswith("<fraction>"):
        numerator, _, denominator = unicodedata.normalize("NFKD", character).partition("\N{FRACTION SLASH}")
        return rf"\frac{{{numerator}}}{{{denominator}}}" if denominator else character
    letter = unicodedata.name(character, "").removeprefix(_GREEK)
    if letter.isalpha() and unicodedata.name(character, "").startswith(_GREEK):
        return rf"\{_SPELLED.get(letter, letter.lower())} "
    return character


def _fraction(whole: str, first: str, repeated: str) -> str:
    """Return the fraction of a decimal by its digits before the point, after it, and those that repeat for ever."""
    numerator = int(whole + first + repeated) - int((whole + first) or 0)
    return rf"\frac{{{numerator}}}{{{'9' * len(repeated)}{'0' * len(first)}}}"
