"""Numbers, intervals and counts as text, the same everywhere in the report."""

from typing import Final

NOTHING: Final = "\N{EN DASH}"
"""Text for a missing value."""


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
    """Write an interval like `[-0.030, 0.022]`; without bounds the text is empty."""
    if low is None or high is None:
        return ""
    return f"[{signed(low)}, {signed(high)}]" if sign else f"[{number(low)}, {number(high)}]"


def estimate(value: float, low: float | None, high: float | None, *, sign: bool = False) -> str:
    """Write a number with its interval, like `0.842 [0.810, 0.874]`; without bounds, the number alone."""
    return f"{signed(value) if sign else number(value)} {interval(low, high, sign=sign)}".strip()


def count(n: int, noun: str, plural: str | None = None) -> str:
    """Write a count with its noun, like `1 seed` or `4 seeds`."""
    return f"{n} {noun if n == 1 else plural or noun + 's'}"
