"""Compares two answers by their text, without mathematics. Pure, and linear in the length of the text."""

import re
from typing import Final

LONGEST_ANSWER: Final = 2000
"""Longest answer in characters; in longer ones math-verify reads only plain numbers and words, or its parser exceeds
Python's recursion limit."""

_THOUSANDS: Final = re.compile(r"(?<=[0-9])(?:\{,\}|,\\!|\\,)(?=[0-9]{3}(?![0-9]))")
_GROUPED: Final = re.compile(r"[+-]?[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]*)?")
_SPACE: Final = re.compile(r"(?<!\\)\\(?:[!,;:]|(?:left|right)(?![a-zA-Z]))")
_FRACTION: Final = re.compile(r"\\[dtc]frac(?![a-zA-Z])")
_LOOSE_SPACE: Final = re.compile(r"(?<!\\)(?:(?<![a-zA-Z0-9\s])\s+|\s+(?![a-zA-Z0-9\s]))")
_NUMBER: Final = re.compile(r"([+-]?)([0-9]*+)(?:\.([0-9]*+))?")
_PLAIN: Final = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")
"""The normal form of a number."""


def normal(answer: str) -> str:
    """Return an answer without mere layout. Answers of one normal form are equal; the reverse need not hold.

    Numbers lose their `+`, separators of thousands, and zeros that do not matter: `1,234` is a number here as for
    math-verify, `1, 234` is two.
    """
    text = _THOUSANDS.sub("", answer.strip().rstrip("."))
    if _GROUPED.fullmatch(text):
        text = text.replace(",", "")
    text = _FRACTION.sub(r"\\frac", _SPACE.sub(" ", text))
    text = " ".join(_LOOSE_SPACE.sub("", text).split())
    if (number := _NUMBER.fullmatch(text)) and (number[2] or number[3]):
        whole, decimals = number[2].lstrip("0") or "0", (number[3] or "").rstrip("0")
        digits = f"{whole}.{decimals}" if decimals else whole
        return f"-{digits}" if number[1] == "-" and digits != "0" else digits
    return text


def is_plain_number(text: str) -> bool:
    """Tell whether a normal form is that of a number, which needs no mathematics."""
    return _PLAIN.fullmatch(text) is not None


def equal_by_text(gold: str, answer: str) -> bool | None:
    """Tell whether two answers are equal, as far as their text says; None: it does not say.

    True: one normal form. False: two different numbers, or an answer longer than any that could be read.
    """
    gold_text, text = normal(gold), normal(answer)
    if gold_text == text:
        return True
    if len(answer) > LONGEST_ANSWER or (is_plain_number(gold_text) and is_plain_number(text)):
        return False
    return None
