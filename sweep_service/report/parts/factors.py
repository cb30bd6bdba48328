"""Varied parameters as columns of a design matrix."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np

from search_spaces.distributions import Distribution, is_number
from sweep_service.report.parts.tuned_points import distinct, on_log_scale
from sweep_service.report.statistics.critical_values import Floats
from sweep_service.sweep.labels import value_text

Coding = Literal["factor", "quadratic", "linear"]

MAX_LEVELS: Final = 6
"""Largest number of values with which a numeric parameter may be a factor; with more it is a trend."""
_TREND_POINTS: Final = 5


@dataclass(frozen=True)
class Factor:
    """One varied parameter of n configs."""

    name: str
    values: list[Any]
    """Parameter value of each level, in order; for a trend, evenly spaced points of its range."""
    texts: list[str]
    counts: list[int]
    """Number of configs at each level; for a trend, nearest to it."""
    columns: Floats
    """Design matrix (n, columns); each column has mean 0."""
    levels: Floats
    """Entries (levels, columns) that a config at each level would have in these columns."""
    places: Floats | None
    """Position of each level (levels,) on the parameter's scale; None without an order."""
    trend: bool
    x: Floats | None
    """Position of each config (n,) on the parameter's scale; None for one that is not numeric."""
    log: bool
    """True if that scale is log10."""


def code(name: str, raw: Sequence[Any], distribution: Distribution, coding: Coding) -> Factor:
    """Code one parameter as a column for each level, or as powers of a numeric one.

    Args:
        name: dotted name.
        raw: value of the parameter in each config.
        distribution: distribution from which it was searched.
        coding: coding of a numeric parameter; others are always factors.
    """
    values = distinct(raw, distribution)
    numeric = all(is_number(value) for value in values)
    log = numeric and on_log_scale(values, distribution)
    x = (np.log10(raw) if log else np.array(raw, dtype=float)) if numeric else None
    if x is not None and (coding != "factor" or len(values) > MAX_LEVELS):
        return _trend(name, x, log, degree=1 if coding == "linear" else 2)
    index = {repr(value): level for level, value in enumerate(values)}
    identity = np.eye(len(values))[:, 1:]  # the first level is the reference
    columns = identity[[index[repr(value)] for value in raw]]
    mean = columns.mean(axis=0)
    counts = Counter(repr(value) for value in raw)
    return Factor(
        name=name,
        values=values,
        texts=[value_text(value) for value in values],
        counts=[counts[repr(value)] for value in values],
        columns=columns - mean,
        levels=identity - mean,
        places=None if x is None else np.unique(x),
        trend=False,
        x=x,
        log=log,
    )


def _trend(name: str, x: Floats, log: bool, degree: int) -> Factor:
    places = np.linspace(x.min(), x.max(), _TREND_POINTS)
    middle, half = (x.min() + x.max()) / 2, (x.max() - x.min()) / 2
    powers = np.arange(1, degree + 1)
    columns = ((x - middle) / half)[:, None] ** powers
    mean = columns.mean(axis=0)
    nearest = np.abs(x[:, None] - places).argmin(axis=1)
    values = [float(f"{place:.6g}") for place in (10**places if log else places)]
    return Factor(
        name=name,
        values=values,
        texts=[value_text(value) for value in values],
        counts=np.bincount(nearest, minlength=_TREND_POINTS).tolist(),
        columns=columns - mean,
        levels=((places - middle) / half)[:, None] ** powers - mean,
        places=places,
        trend=True,
        x=x,
        log=log,
    )
