"""Rates of ruined runs: exact bounds of one, and of the difference of two."""

import math
from bisect import bisect_left
from functools import lru_cache
from typing import Final, NamedTuple

from scipy import special

from sweep_service.report.statistics.critical_values import CONFIDENCE

MOST_RUNS: Final = 1000
"""Largest number of runs that is worth proposing."""
_ERROR: Final = 1 - CONFIDENCE


@lru_cache(maxsize=4096)
def rate_bound(bad: float, runs: int, error: float = _ERROR) -> float:
    """Return the largest rate that so many bad ones among so many runs leave possible (Clopper-Pearson, one-sided)."""
    return 1.0 if bad >= runs else float(special.betaincinv(bad + 1, runs - bad, 1 - error))


@lru_cache(maxsize=4096)
def least_rate(bad: float, runs: int, error: float = _ERROR) -> float:
    """Return the smallest rate that they leave possible."""
    return float(special.betaincinv(bad, runs - bad + 1, error)) if bad else 0.0


def runs_to_exclude(rate: float, bad: int = 0, error: float = _ERROR) -> int | None:
    """Return the number of runs, so many of them bad, that excludes such a rate; None if not even `MOST_RUNS` does."""
    if rate_bound(bad, MOST_RUNS, error) > rate:
        return None
    return bisect_left(range(MOST_RUNS), -rate, lo=bad + 1, key=lambda runs: -rate_bound(bad, runs, error))


class Ruins(NamedTuple):
    """The ruined ones among a config's runs."""

    runs: int
    most: float
    """Number of ruined runs, as if each had lost everything, the failed ones too."""
    least: float
    """The same, each counted as the share of a sound result that it is known to have lost: 0 for a failed one."""


def most_excess(one: Ruins, other: Ruins, error: float = _ERROR) -> float:
    """Return the upper bound of how much more of its results one config loses to ruin than another, as a share.

    The bounds of the two rates are joined as Zou and Donner (2008) join those of any two independent estimates: a root
    of squares, since both rarely lie at their ends at once. None of either in n runs leave what `rate_bound` does.
    """
    if not (one.runs and other.runs):
        return 1.0
    rate, saved = one.most / one.runs, math.floor(other.least) / other.runs
    high = rate_bound(one.most, one.runs, error) - rate
    low = saved - least_rate(math.floor(other.least), other.runs, error)
    return rate - saved + math.hypot(high, low)
