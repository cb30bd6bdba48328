"""Places of intervals and their means on a common axis, in percent of its width."""

from collections.abc import Mapping
from typing import Final

from sweep_service.report.model import Comparison, Exploration

_REACH: Final = 3.0
"""The axis extends to this multiple of the verdict interval's largest bound."""

Places = dict[str, float]
"""Position of each mark on an axis by name, in percent of the axis's width."""


def place(value: float, low: float, high: float, margin: float = 4.0) -> float:
    """Return the place of a value between two others, with a margin on both sides."""
    span = (high - low) or 1.0
    return round(margin + (100 - 2 * margin) * (value - low) / span, 2)


def axis(comparisons: Mapping[str, Comparison], verdict: Comparison | None) -> tuple[float, float]:
    """Return the ends of an axis for intervals and zero; a config that lost far does not stretch it.

    It reaches at most `_REACH` times as far from zero as the verdict's interval; without one it has room for all.
    """
    shown = [value for c in comparisons.values() for value in (c.low, c.difference, c.high) if value is not None]
    low, high = min([0.0, *shown]), max([0.0, *shown])
    if verdict is None or verdict.low is None or verdict.high is None:
        return low, high
    reach = _REACH * max(abs(verdict.low), abs(verdict.high))
    return (max(low, -reach), min(high, reach)) if reach else (low, high)


def marks(low: float | None, mean: float, high: float | None, least: float, most: float) -> Places:
    """Place a mean and its interval on an axis, which may end before them; without an interval they coincide."""
    values = {"low": mean if low is None else low, "mean": mean, "high": mean if high is None else high}
    return {name: place(value, least, most) for name, value in values.items()}


def effects_axis(exploration: Exploration) -> tuple[float, float]:
    """Return the ends of the axis that all effects share, so that strong ones look strong."""
    levels = [level for effect in exploration.effects for level in effect.levels]
    values = [value for level in levels for value in (level.low, level.mean, level.high) if value is not None]
    return min(values, default=0.0), max(values, default=1.0)


def scale(comparison: Comparison | None, relevant: float | None = None) -> Places | None:
    """Place the verdict's interval on an axis with zero in the middle and room for a label beyond either end.

    The interval of averages over all runs, `all_low` to `all_high`, may reach beyond the axis, below 0 or above 100.

    Args:
        relevant: the difference from which on two configs are not alike, placed as `least` and `most`.
    """
    if comparison is None or comparison.low is None or comparison.high is None:
        return None
    ends = [comparison.low, comparison.high]
    if comparison.outcome.is_of_all and comparison.average_low is not None and comparison.average_high is not None:
        ends.append(min(comparison.average_low, comparison.average_high, key=abs))
    reach = max(1.7 * max(map(abs, ends)), 1.2 * (relevant or 0.0)) or 1.0
    values = {"low": comparison.low, "mean": comparison.difference, "high": comparison.high, "zero": 0.0}
    if comparison.average_low is not None and comparison.average_high is not None:
        values |= {"all_low": comparison.average_low, "all_high": comparison.average_high}
    if relevant is not None:
        values |= {"least": -relevant, "most": relevant}
    return {name: place(value, -reach, reach, margin=0) for name, value in values.items()}
