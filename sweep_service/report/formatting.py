"""Numbers, intervals and counts as text, the same everywhere in the report."""

from typing import Final

NOTHING: Final = "\N{EN DASH}"
"""Stands for a missing value."""


def number(value: float | None, digits: int = 3) -> str:
    """`0.842`, `-0.100`, `0.000` for what rounds to zero, or `NOTHING`."""
    if value is None:
        return NOTHING
    text = f"{value:.{digits}f}"
    return text.lstrip("-") if float(text) == 0 else text


def signed(value: float, digits: int = 3) -> str:
    """`+0.012`, `-0.004`, and `0.000` for what rounds to zero."""
    text = f"{value:+.{digits}f}"
    return text[1:] if float(text) == 0 else text


def interval(low: float | None, high: float | None, *, sign: bool = False) -> str:
    """`[-0.030, +0.022]`, or nothing without bounds."""
    if low is None or high is None:
        return ""
    return f"[{signed(low)}, {signed(high)}]" if sign else f"[{number(low)}, {number(high)}]"


def count(n: int, noun: str, plural: str | None = None) -> str:
    """`1 seed`, `4 seeds`."""
    return f"{n} {noun if n == 1 else plural or noun + 's'}"
