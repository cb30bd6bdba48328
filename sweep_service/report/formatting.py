"""Numbers, intervals, counts and the texts of others as text, the same everywhere in the report."""

import math
from collections.abc import Sequence
from typing import Final

from trainers.printable import printable

NOTHING: Final = "\N{EN DASH}"
"""Text for a missing value."""
_SURE: Final = 0.9999
"""Largest confidence that is written out."""
_MOST_DIGITS: Final = 9
"""A number whose first digit comes at this decimal or later counts as zero."""
_SPECIAL: Final = str.maketrans(
    {char: f"\\{char}" for char in "\\`*_[]|#~$!"} | {"<": "&lt;", ">": "&gt;", "&": "&amp;"}
)


def number(value: float | None, digits: int = 3) -> str:
    """Write a number like `0.842`, `-0.100` or `0.000` (for what rounds to zero); None is `NOTHING`."""
    if value is None:
        return NOTHING
    text = f"{value:.{digits}f}"
    return text.lstrip("-") if float(text) == 0 else text


def signed(value: float, digits: int = 3) -> str:
    """Write a number with its sign, like `+0.012` or `-0.004`; what rounds to zero is `0.000`."""
    text = f"{value:+.{digits}f}"
    return text[1:] if float(text) == 0 else text


def interval(low: float | None, high: float | None, *, sign: bool = False) -> str:
    """Write an interval like `[-0.030, 0.022]`; without bounds the text is empty.

    It has as many decimals as its width needs, and no bound is rounded onto zero.
    """
    if low is None or high is None:
        return ""
    write, digits = signed if sign else number, _digits(low, high)
    return "[" + ", ".join(write(bound, max(digits, _digits_of(bound))) for bound in (low, high)) + "]"


def no_more(value: float) -> str:
    """Write a difference like `0.051`, rounded towards zero, for a claim that holds at least."""
    digits = 3 if abs(value) >= 0.001 or not value else -math.floor(math.log10(abs(value)))
    return f"{math.copysign(math.floor(abs(value) * 10**digits) / 10**digits, value):.{digits}f}"


def estimate(value: float, low: float | None, high: float | None, *, sign: bool = False) -> str:
    """Write a number with its interval, like `0.842 [0.810, 0.874]`; without bounds, the number alone."""
    return f"{rounded(value, low, high, sign=sign)} {interval(low, high, sign=sign)}".strip()


def rounded(value: float, low: float | None, high: float | None, *, sign: bool = False) -> str:
    """Write a number as it stands before its interval, with as many decimals as that needs."""
    digits = 3 if low is None or high is None else _digits(low, high)
    return signed(value, digits) if sign else number(value, digits)


def _digits(low: float, high: float) -> int:
    """Return the decimals with which half an interval's width has a digit that is not 0; three at least."""
    return max(3, _digits_of((high - low) / 2))


def _digits_of(value: float) -> int:
    """Return the decimals up to a number's first digit that is not 0; three at least, and for what counts as zero."""
    first = -math.floor(math.log10(abs(value))) if value else 0
    return first if 3 < first < _MOST_DIGITS else 3


def confidence_text(confidence: float) -> str:
    """Write a confidence such as `95 %` or `97.5 %`, never as 100 %."""
    return f"{100 * confidence:.4g} %" if confidence < _SURE else f"over {100 * _SURE:g} %"


def count(n: int, noun: str, plural: str | None = None) -> str:
    """Write a count with its noun, like `1 seed` or `4 seeds`."""
    return f"{n} {noun if n == 1 else plural or noun + 's'}"


def listed(names: Sequence[str], most: int) -> str:
    """Write names like `a, b and 3 more`: the first ones, at most so many, and the number of the others."""
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest} more" if rest > 0 else "")


def duration(hours: float) -> str:
    """Write a time with three digits in the largest unit in which it is at least 1: `35.3 s`, `12 min`, `240 h`."""
    seconds = 3600 * hours
    value, unit = (hours, "h") if hours >= 1 else (seconds / 60, "min") if seconds >= 60 else (seconds, "s")
    return f"{value:.0f} {unit}" if value >= 100 else f"{value:.3g} {unit}"


def plain(value: str) -> str:
    """Put a user's text on one line, with nothing in it that Markdown, HTML or a terminal would act on."""
    return " ".join(printable(value).split()).translate(_SPECIAL)
