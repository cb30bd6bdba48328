"""Means and paired differences of configs over training seeds, with intervals that hold for all of them at once.

Model of the confirm stage: result(config, seed) = config + seed + error. The seeds are the same for every config, so a
difference of two configs is free of the seeds' part. The error's variance is estimated from all configs that did not
collapse. Simulations behind the choices: docs/report.md.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, cast

import numpy as np
from scipy import optimize, stats

MIN_SEEDS: Final = 3
"""With fewer seeds no interval is given."""
CONFIDENCE: Final = 0.95
POWER: Final = 0.8
WILDER_LEVEL: Final = 0.05
"""Chance that an equally noisy config is left out of the pooled variance."""


@dataclass(frozen=True)
class Arm:
    """The results of one config."""

    config_id: str
    values: Mapping[int, float]
    """By seed; a seed whose trial failed is missing."""
    steady: bool = True
    """False for a config that collapsed: its spread says nothing about the others'."""


@dataclass(frozen=True)
class Interval:
    """A mean with its confidence interval; the bounds are None for fewer than `MIN_SEEDS` values."""

    mean: float
    sd: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Difference:
    """Mean over paired seeds of (config minus comparator)."""

    config_id: str
    comparator_id: str
    num_seeds: int
    estimate: float
    standard_error: float | None = None
    df: int | None = None
    critical: float | None = None
    """Half the interval's width in standard errors."""
    pooled: bool = False
    """Whether the variance comes from all steady configs, not from this pair alone."""

    @property
    def half_width(self) -> float | None:
        """Half the width of the interval."""
        return None if self.critical is None or self.standard_error is None else self.critical * self.standard_error

    @property
    def detectable(self) -> float | None:
        """The true difference that would be told from zero with 80 % probability."""
        if self.critical is None or self.standard_error is None or self.df is None:
            return None
        return (self.critical + float(stats.t.ppf(POWER, self.df))) * self.standard_error


def mean_interval(values: Sequence[float]) -> Interval:
    """Mean over seeds with Student's interval."""
    data, n = np.asarray(values, dtype=float), len(values)
    sd = float(data.std(ddof=1)) if n > 1 else None
    mean = float(data.mean())
    if sd is None or n < MIN_SEEDS:
        return Interval(mean, sd, None, None)
    half = float(stats.t.ppf((1 + CONFIDENCE) / 2, n - 1)) * sd / math.sqrt(n)
    return Interval(mean, sd, mean - half, mean + half)


def differences(arms: Sequence[Arm], comparator_id: str, config_ids: Sequence[str]) -> list[Difference]:
    """Compare configs with one comparator; the intervals hold for all of them at once (Dunnett).

    The variance is the pooled one, or the pair's own where that is larger: pooling alone says BETTER too often when
    the comparator is the noisy one. A config that is plainly noisier than the pair stays out of its pool. A pair with
    a collapsed config stands on its own variance and degrees of freedom.

    Args:
        arms: all confirmed configs; each steady one may add to the pooled variance.
        comparator_id: the arm to subtract.
        config_ids: the arms to compare, chosen without looking at `arms`; ones that share no seed are left out.
    """
    by_id = {arm.config_id: arm for arm in arms}
    comparator = by_id[comparator_id]
    pairs = [
        (by_id[config_id], sorted(by_id[config_id].values.keys() & comparator.values.keys()))
        for config_id in config_ids
        if config_id != comparator_id
    ]
    pairs = [(arm, seeds) for arm, seeds in pairs if seeds]
    correlation = min((_correlation(a, b) for _, a in pairs for _, b in pairs if a is not b), default=0.5)
    return [_difference(arm, comparator, seeds, arms, len(pairs), correlation) for arm, seeds in pairs]


def _difference(
    arm: Arm, comparator: Arm, seeds: Sequence[int], arms: Sequence[Arm], family: int, correlation: float
) -> Difference:
    deltas = np.array([arm.values[seed] - comparator.values[seed] for seed in seeds])
    n, estimate = len(seeds), float(deltas.mean())
    if n < MIN_SEEDS:
        return Difference(arm.config_id, comparator.config_id, n, estimate)
    variance, df, pooled = float(deltas.var(ddof=1)) / 2, n - 1, False
    pool = _residual_variance([other for other in arms if other.steady and not _wilder(other, arm, comparator)])
    if pool is not None and pool[1] >= df and arm.steady and comparator.steady:
        variance, df, pooled = max(variance, pool[0]), pool[1], pool[0] >= variance
    critical = dunnett_critical(family, df, correlation)
    error = math.sqrt(2 * variance / n)
    return Difference(arm.config_id, comparator.config_id, n, estimate, error, df, critical, pooled)


def _wilder(other: Arm, arm: Arm, comparator: Arm) -> bool:
    """Whether a third config is plainly noisier than the pair (F test), so that its noise says nothing about theirs."""
    seeds = sorted(other.values.keys() & arm.values.keys() & comparator.values.keys())
    if other in (arm, comparator) or len(seeds) < MIN_SEEDS:
        return False
    pair_2S = np.array([[side.values[seed] for seed in seeds] for side in (arm, comparator)])
    own = (pair_2S[0] - pair_2S[1]).var(ddof=1) / 2
    if np.isclose(own, 0):  # equal to the last digit: a coincidence of coarse scores, not a spread to judge others by
        return False
    apart_S = np.array([other.values[seed] for seed in seeds]) - pair_2S.mean(axis=0)  # independent of the difference
    ratio = apart_S.var(ddof=1) / 1.5 / own
    return bool(ratio > stats.f.ppf(1 - WILDER_LEVEL, len(seeds) - 1, len(seeds) - 1))


def _correlation(seeds: Sequence[int], others: Sequence[int]) -> float:
    """Correlation of two differences from the same comparator: 1/2 when both have the same seeds."""
    return len(set(seeds) & set(others)) / (2 * math.sqrt(len(seeds) * len(others)))


def _residual_variance(arms: Sequence[Arm]) -> tuple[float, int] | None:
    """Residual variance and degrees of freedom of the config + seed model; None without degrees of freedom."""
    cells = [(row, seed, value) for row, arm in enumerate(arms) for seed, value in sorted(arm.values.items())]
    seeds = sorted({seed for _, seed, _ in cells})
    design = np.zeros((len(cells), len(arms) + len(seeds)))
    for index, (row, seed, _) in enumerate(cells):
        design[index, row] = design[index, len(arms) + seeds.index(seed)] = 1
    results = np.array([value for _, _, value in cells])
    df = len(cells) - (int(np.linalg.matrix_rank(design)) if cells else 0)
    if df < 1:
        return None
    fitted = design @ np.linalg.lstsq(design, results, rcond=None)[0]
    return float(((results - fitted) ** 2).sum()) / df, df


@lru_cache(maxsize=4096)
def dunnett_critical(family: int, df: int, correlation: float = 0.5, confidence: float = CONFIDENCE) -> float:
    """The c with P(all |T_i| <= c) = confidence, for `family` equally correlated t variables that share one variance.

    With unequal correlations pass the smallest one: the true probability is then higher (Slepian).
    """
    if family <= 1:
        return float(stats.t.ppf((1 + confidence) / 2, df))
    nodes_Z, weights_Z = np.polynomial.hermite_e.hermegauss(64)  # the comparator's normal part
    nodes_S, weights_S = np.polynomial.legendre.leggauss(128)  # the shared standard deviation, by its quantiles
    scale_S1 = np.sqrt(stats.chi2.ppf((nodes_S + 1) / 2, df) / df)[:, None]
    shift_Z, spread = math.sqrt(correlation) * nodes_Z, math.sqrt(1 - correlation)

    def excess(c: float) -> float:
        inside_SZ = stats.norm.cdf((c * scale_S1 - shift_Z) / spread) - stats.norm.cdf(
            (-c * scale_S1 - shift_Z) / spread
        )
        probability = weights_S @ inside_SZ**family @ weights_Z / (weights_S.sum() * weights_Z.sum())
        return float(probability) - confidence

    return cast("float", optimize.brentq(excess, 0.5, 1000.0, xtol=1e-10))
