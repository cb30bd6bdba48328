"""Least squares with the tests and intervals that follow from it."""

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from sweep_service.report.statistics.critical_values import Floats

_EXACT = 1e-20
"""A residual sum of squares below this share of the total is rounding, not noise."""


@dataclass(frozen=True)
class LinearFit:
    """The fit of y = X·beta + error."""

    beta: Floats
    inverse: Floats
    """Pseudo-inverse of X'X."""
    rank: int
    rss: float
    """Residual sum of squares; 0 where it is only rounding."""
    total: float
    """Sum of squares about the mean."""
    df: int
    """Residual degrees of freedom."""

    @property
    def variance(self) -> float | None:
        """Variance of the error; None without degrees of freedom, and for a fit without any error."""
        return self.rss / self.df if self.df > 0 and self.rss > 0 else None

    @property
    def r2(self) -> float:
        """Share of the variance that the fit explains."""
        return 1 - self.rss / self.total if self.total > 0 else 0.0

    def scale(self, row: Floats) -> float:
        """Return the standard error of `row`·beta, in units of the error's sd."""
        return math.sqrt(max(float(row @ self.inverse @ row), 0.0))


def fit(X: Floats, y: Floats) -> LinearFit:
    """Fit by least squares; columns may depend on each other.

    Args:
        X: design matrix (configs, columns), the constant included.
        y: value of each config (configs,).
    """
    u, s, vt = np.linalg.svd(X, full_matrices=False)
    keep = s > s[0] * max(X.shape) * np.finfo(float).eps
    u, s, vt = u[:, keep], s[keep], vt[keep]
    parts = u.T @ y
    rest = y - u @ parts
    total, rss = float(((y - y.mean()) ** 2).sum()), float(rest @ rest)
    rss = 0.0 if rss <= _EXACT * float(y @ y) else rss
    return LinearFit(
        vt.T @ (parts / s), vt.T @ (vt / s[:, None] ** 2), int(keep.sum()), rss, total, len(y) - int(keep.sum())
    )


def p_of_t(t: float, df: int) -> float:
    """Return the two-sided p value of a t."""
    return 2 * float(special.stdtr(df, -abs(t)))


def p_of_f(f: float, df: int, error_df: int) -> float:
    """Return the p value of an F: how often noise alone gives one as high."""
    return float(special.fdtrc(df, error_df, f))


def p_text(p: float) -> str:
    """Write a p value like `p = 0.031` or `p < 0.001`."""
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}" if p < 0.1 else f"p = {p:.2f}"
