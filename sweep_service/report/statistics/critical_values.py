"""How far several t statistics may lie from zero by chance, and how often a true difference goes further."""

import math
from functools import lru_cache
from typing import Final, cast

import numpy as np
import numpy.typing as npt
from scipy import optimize, special, stats

CONFIDENCE: Final = 0.95
POWER: Final = 0.8

Floats = npt.NDArray[np.float64]


@lru_cache(maxsize=1)
def _nodes() -> tuple[tuple[Floats, Floats], tuple[Floats, Floats]]:
    """Nodes and weights for the comparator's normal part, and for the shared standard deviation."""
    return np.polynomial.hermite_e.hermegauss(64), np.polynomial.legendre.leggauss(128)


@lru_cache(maxsize=4096)
def dunnett_critical(
    family: int, df: int, correlation: float = 0.5, confidence: float = CONFIDENCE, *, one_sided: bool = False
) -> float:
    """The c with P(all |T_i| <= c) = confidence, for `family` equally correlated t variables that share one variance.

    With unequal correlations pass the smallest one: the true probability is then higher (Slepian).

    Args:
        one_sided: P(all T_i <= c) instead.
    """
    if family <= 1:
        return float(stats.t.ppf(confidence if one_sided else (1 + confidence) / 2, df))
    (nodes_Z, weights_Z), (nodes_S, weights_S) = _nodes()
    scale_S1 = np.sqrt(stats.chi2.ppf((nodes_S + 1) / 2, df) / df)[:, None]  # by its quantiles
    shift_Z, spread = math.sqrt(correlation) * nodes_Z, math.sqrt(1 - correlation)

    def excess(c: float) -> float:
        inside_SZ = special.ndtr((c * scale_S1 - shift_Z) / spread)
        if not one_sided:
            inside_SZ = inside_SZ - special.ndtr((-c * scale_S1 - shift_Z) / spread)
        probability = weights_S @ inside_SZ**family @ weights_Z / (weights_S.sum() * weights_Z.sum())
        return float(probability) - confidence

    return cast("float", optimize.brentq(excess, 0.0, 1000.0, xtol=1e-10))


def power(critical: float, df: int, effect: float) -> float:
    """The probability that a t statistic exceeds `critical` when the true difference is `effect` standard errors."""
    return 1 - float(special.nctdtr(df, effect, critical))


@lru_cache(maxsize=4096)
def detectable_effect(critical: float, df: int) -> float:
    """The true difference, in standard errors, that exceeds `critical` with probability `POWER`."""
    found = optimize.brentq(lambda effect: power(critical, df, effect) - POWER, 0.0, 10 * critical + 10)
    return cast("float", found)
