"""Compares two answers by their text, without mathematics. Pure, and linear in the length of the text."""

import re
from typing import Final

LONGEST_ANSWER: Final = 2000
"""Longest answer in characters; in longer ones math-verify reads only plain numbers and words, or its parser exceeds
Python's recursion limit."""

_THOUSANDS: Final = re.compile(r"(?<=[0-9])(?:\{,\}|,\\!|\\,)(?=[0-9]{3}(?![0-9]))")
_GROUPED: Final = re.compile(r"[+-]?[0-9]{1,3}(?:,[0-9]{3})+")
_SPACE: Final = re.compile(r"(?<!\\)\\(?:[!,;:]|(?:left|right)(?![a-zA-Z]))")
_FRACTION: Final = re.compile(r"\\[dtc]frac(?![a-zA-Z])")
_LOOSE_SPACE: Final = re.compile(r"(?<!\\)(?:(?<![a-zA-Z0-9\s])\s+|\s+(?![a-zA-Z0-9\s]))")
_INTEGER: Final = re.compile(r"([+-]?)0*([0-9]+)")


def normal(answer: str) -> str:
    """Return an answer without mere layout. Answers of one normal form are equal; the reverse need not hold.

    Integers lose their `+`, leading zeros and separators of thousands: `1,234` is a number here as for math-verify,
    `1, 234` is two.
    """
    text = _THOUSANDS.sub("", answer.strip().rstrip("."))
    if _GROUPED.fullmatch(text):
        text = text.replace(",", "")
    text = _FRACTION.sub(r"\\frac", _SPACE.sub(" ", text))
    text = " ".join(_LOOSE_SPACE.sub("", text).split())
    if integer := _INTEGER.fullmatch(text):
        sign, digits = integer.groups()
        return f"-{digits}" if sign == "-" and digits != "0" else digits
    return text


def equal_by_text(gold: str, answer: str) -> bool | None:
    """Tell whether two answers are equal, as far as their text says; None: it does not say.

    True: one normal form. False: two different integers, or an answer longer than any that could be read.
    """
    gold_text, text = normal(gold), normal(answer)
    if gold_text == text:
        return True
    if len(answer) > LONGEST_ANSWER or (_INTEGER.fullmatch(gold_text) and _INTEGER.fullmatch(text)):
        return False
    return None
