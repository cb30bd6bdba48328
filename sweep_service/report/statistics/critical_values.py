"""Critical values of several t statistics, and the power: how often a true difference exceeds them."""

import math
from functools import lru_cache
from typing import Final, cast

import numpy as np
import numpy.typing as npt
from scipy import optimize, special

CONFIDENCE: Final = 0.95
POWER: Final = 0.8
_LOOKS: Final = 37
"""Number of looks from which a smaller error could hardly be told from none in floating point."""

Floats = npt.NDArray[np.float64]


def confidence_of(look: int) -> float:
    """Return the confidence of intervals at the n-th look at growing results.

    The first look has `CONFIDENCE`; each further one may err half as often as the one before, so that all together err
    at most twice as often as the first. From `_LOOKS` on they stay alike, which adds less than 1e-12 each.
    """
    return 1 - (1 - CONFIDENCE) / 2 ** (min(look, _LOOKS) - 1)


def student_critical(df: float, confidence: float = CONFIDENCE) -> float:
    """Return half the width of Student's interval, in standard errors."""
    return float(special.stdtrit(df, (1 + confidence) / 2))


@lru_cache(maxsize=1)
def _nodes() -> tuple[tuple[Floats, Floats], tuple[Floats, Floats]]:
    """Return nodes and weights for the comparator's normal part, and for the shared standard deviation."""
    return np.polynomial.hermite_e.hermegauss(64), np.polynomial.legendre.leggauss(128)


@lru_cache(maxsize=4096)
def lower_critical(family: int, df: int, correlation: float = 0.5, confidence: float = CONFIDENCE) -> float:
    """Return the distance of the lower bounds from their estimates, in standard errors (Dunnett, one-sided).

    This is the c with P(all T_i <= c) = (1 + confidence) / 2, for `family` equally correlated t variables that share
    one variance. With unequal correlations pass the smallest one: the true probability is then higher (Slepian).
    """
    if family <= 1:
        return student_critical(df, confidence)
    (nodes_Z, weights_Z), (nodes_S, weights_S) = _nodes()
    scale_S1 = np.sqrt(special.chdtri(df, (1 - nodes_S) / 2) / df)[:, None]  # by its quantiles
    shift_Z, spread = math.sqrt(correlation) * nodes_Z, math.sqrt(1 - correlation)

    def excess(c: float) -> float:
        inside_SZ = special.ndtr((c * scale_S1 - shift_Z) / spread)
        probability = weights_S @ inside_SZ**family @ weights_Z / (weights_S.sum() * weights_Z.sum())
        return float(probability) - (1 + confidence) / 2

    bonferroni = student_critical(df, 1 - (1 - confidence) / family)  # never smaller than what is sought
    if excess(bonferroni) <= 0:  # so far out that the nodes see no difference
        return bonferroni
    return cast("float", optimize.brentq(excess, 0.0, bonferroni, xtol=1e-10))


def power(critical: float, df: int, effect: float) -> float:
    """Return the probability that a t statistic exceeds `critical` when the true difference is `effect` errors."""
    below = float(special.nctdtr(df, effect, critical))
    return float(effect > critical) if math.isnan(below) else 1 - below  # scipy knows none far from the critical value


@lru_cache(maxsize=4096)
def detectable_effect(critical: float, df: int) -> float:
    """Return the true difference, in standard errors, that exceeds `critical` with probability `POWER`."""
    effect = optimize.brentq(lambda effect: power(critical, df, effect) - POWER, 0.0, 10 * critical + 10)
    return cast("float", effect)
