"""The probability that further seeds show a true difference, given the results so far."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from scipy import special

from sweep_service.report.statistics.critical_values import CONFIDENCE, Floats, lower_critical

_RANGE: Final = 0.8
"""Confidence of the range of variances at whose ends the probability is given, too."""
_PROBLEM_NODES: Final = 12


@dataclass(frozen=True)
class ResultsSoFar:
    """A difference of two configs that further seeds may show, and its error, as the results so far have them."""

    variance: float
    """Variance of the error of one result, as estimated."""
    df: int
    """Degrees of freedom of that estimate."""
    family: int
    """Number of configs for which the lower bounds hold at once."""
    seeds: int = 0
    """Paired seeds that the next interval will count beside the further ones."""
    difference: float = 0.0
    """Mean difference over them."""
    known_df: int = 0
    """Degrees of freedom that the variance gives the next interval; 0 if it is from other results."""
    df_per_seed: int = 1
    """Degrees of freedom that each seed gives it."""
    problem_error: float = 0.0
    """Part of the standard error that other problems would change; 0 where they are not counted."""
    problem_df: int = 1
    problem_noise: float = 0.0
    """Variance that was subtracted to estimate that part: what the rest of the model adds to it."""

    def chance(self, more: int, truth: float, confidence: float = CONFIDENCE) -> float:
        """Return the probability that the lower bound lies above zero with so many seeds more.

        It is a mean over what the true variance may be (df x variance / chi-squared), over the variance that all seeds
        together will show, over what the problems' part may be, and over the luck on problems that the difference so
        far leaves possible.

        Args:
            more: number of further seeds, at least 1, and enough for an interval.
            truth: the true difference of the two configs.
            confidence: confidence of the next interval.
        """
        nodes_V, weights_V = _quantiles(self.df)
        return float(weights_V @ self._over_problems(self.variance / nodes_V, more, truth, confidence))

    def chance_range(self, more: int, truth: float, confidence: float = CONFIDENCE) -> tuple[float, float]:
        """Return the same probability for the largest and for the smallest variance of an 80 % interval.

        A mean over many variances may lie outside these two; the range holds it all the same.
        """
        tails = (1 - _RANGE) / 2, (1 + _RANGE) / 2
        variances_V = self.variance * self.df / special.chdtri(self.df, [1 - tail for tail in tails])
        ends = self._over_problems(variances_V, more, truth, confidence).tolist()
        every = [*ends, self.chance(more, truth, confidence)]
        return min(every), max(every)

    def _over_problems(self, variances_V: Floats, more: int, truth: float, confidence: float) -> Floats:
        """Return the probability for each true variance: a mean over what the problems' part may be.

        That part was estimated as the rest of a subtraction, so it may be much larger than it looks, or 0.
        """
        whole = self.problem_error**2 + self.problem_noise
        if not whole:
            return self._chances(variances_V, 0.0, more, truth, confidence)
        nodes_P, weights_P = _quantiles(self.problem_df, _PROBLEM_NODES)
        errors_P = np.sqrt(np.maximum(whole / nodes_P - self.problem_noise, 0.0))
        chances_PV = [self._chances(variances_V, float(error), more, truth, confidence) for error in errors_P]
        return weights_P @ np.array(chances_PV)

    def _chances(self, variances_V: Floats, problem_error: float, more: int, truth: float, confidence: float) -> Floats:
        """Return the probability for each true variance, and one true error of the problems."""
        every = self.seeds + more
        df = self.known_df + self.df_per_seed * (more if self.known_df else every - 1)
        nodes_S, weights_S = _quantiles(df - self.known_df)
        shown_VS = variances_V[:, None] * nodes_S * (df - self.known_df) + self.known_df * self.variance
        widths_VS = lower_critical(self.family, df, confidence=confidence) * np.sqrt(2 * shown_VS / df / every)
        if problem_error:
            of_problems = lower_critical(self.family, self.problem_df, confidence=confidence) * problem_error
            widths_VS = np.hypot(widths_VS, of_problems)
        luck_V, luck_variance_V = self._luck(variances_V, problem_error, truth)
        means_V = (self.seeds * self.difference + more * (truth + luck_V)) / every
        sds_V = more / every * np.sqrt(luck_variance_V + 2 * variances_V / more)
        return special.ndtr((means_V[:, None] - widths_VS) / sds_V[:, None]) @ weights_S

    def _luck(self, variances_V: Floats, problem_error: float, truth: float) -> tuple[Floats, Floats]:
        """Return mean and variance of what these problems add to the difference, by what the seeds so far have shown.

        Further seeds answer the same problems, so their differences have that luck, too.
        """
        luck = np.full(len(variances_V), problem_error**2)
        if not self.seeds:
            return np.zeros(len(variances_V)), luck
        of_seeds_V = 2 * variances_V / self.seeds
        share_V = luck / (luck + of_seeds_V)
        return share_V * (self.difference - truth), share_V * of_seeds_V


@lru_cache(maxsize=4096)
def _quantiles(df: int, number: int = 24) -> tuple[Floats, Floats]:
    """Return nodes and weights for a mean over chi-squared / df."""
    nodes, weights = np.polynomial.legendre.leggauss(number)
    return special.chdtri(df, (1 - nodes) / 2) / df, weights / 2
