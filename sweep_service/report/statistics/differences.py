"""Means and paired differences of configs over training seeds, with intervals that hold for the best of several.

Model of the confirm stage: result(config, seed) = config + seed + error. The seeds are the same for every config, so a
difference of two configs is free of the seeds' part. The error's variance is estimated from all configs that did not
collapse and are not plainly noisier than the others. Results that are all equal give a variance of 0, which counts as
unknown, so that there is no interval. Where the right samples of each validation problem were counted, other problems
are part of the error too (`seeds_and_problems`), from the pair alone. Simulations behind the choices:
docs/statistics.md.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Final, Literal

import numpy as np
import numpy.typing as npt
from scipy import stats

from sweep_service.report.statistics.critical_values import CONFIDENCE, Floats, detectable_effect, student_critical
from sweep_service.report.statistics.seeds_and_problems import ErrorParts, ProblemError, problem_error
from sweep_service.sweep.spec import MIN_SEEDS

EQUAL: Final = "all of them gave the same, so nothing can be said of their spread"
"""Reason why `MIN_SEEDS` seeds or more may have no interval."""
NOISIER: Final = 0.05
"""Level of the F tests that call a config, or a pair, plainly noisier than the others."""
FAR_NOISIER: Final = 0.01
"""Level of the F test from which a config's differences use only their own degrees of freedom, which costs power."""
_NO_VARIANCE: Final = 1e-18  # at most what rounding leaves of equal scores

Flags = npt.NDArray[np.bool_]
Squares = tuple[float, int]
"""A sum of squares and its degrees of freedom."""


@dataclass(frozen=True)
class Arm:
    """The results of one config."""

    config_id: str
    values: Mapping[int, float]
    """Objective by seed; a seed whose trial failed is missing."""
    steady: bool = True
    """Whether the config did not collapse, so that its spread says something about that of the others."""
    rates: Mapping[int, Mapping[str, float]] = field(default_factory=dict[int, Mapping[str, float]])
    """Share of right samples by seed and problem; a seed whose trial did not count them is missing."""


@dataclass(frozen=True)
class Interval:
    """A mean with its confidence interval; the bounds are None for equal values, and for fewer than `MIN_SEEDS`."""

    n: int
    mean: float
    sd: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Difference:
    """Mean over paired seeds of (one config minus another), with its standard error."""

    num_seeds: int
    difference: float
    standard_error: float | None = None
    """Standard error of the mean; None for fewer than `MIN_SEEDS` seeds, and where results do not vary."""
    seed_error: float | None = None
    """The part of it that other training seeds would change; the only part where problems were not counted."""
    df: int | None = None
    """Degrees of freedom of the seeds' part."""
    num_problems: int | None = None
    """Number of validation problems that the error counts; None where it does not count them."""
    problem_error: float | None = None
    """The part of the standard error that other problems would change."""
    problem_df: int | None = None
    family: int = 1
    """Number of configs for which the lower bounds against this comparator hold at once."""
    variance: Literal["pooled", "pair"] | None = None
    """Source of the variance: all steady configs, or this pair alone; None without a standard error."""
    low: float | None = None
    """Bounds, which `differences` adds where there is a standard error."""
    high: float | None = None
    detectable: float | None = None
    """True difference that would be told from zero with 80 % probability."""

    @property
    def parts(self) -> ErrorParts | None:
        """The error in its parts; None without one."""
        if self.seed_error is None or self.df is None:
            return None
        return ErrorParts(self.seed_error, self.df, self.problem_error or 0.0, self.problem_df or 1)


def mean_interval(values: Sequence[float], confidence: float = CONFIDENCE) -> Interval:
    """Return the mean over seeds with Student's interval."""
    data, n = np.asarray(values, dtype=float), len(values)
    sd = float(data.std(ddof=1)) if n > 1 else None
    mean = float(data.mean())
    if sd is None or n < MIN_SEEDS or sd**2 <= _NO_VARIANCE:
        return Interval(n, mean, sd, None, None)
    half = student_critical(n - 1, confidence) * sd / math.sqrt(n)
    return Interval(n, mean, sd, mean - half, mean + half)


def differences(
    arms: Sequence[Arm], comparator_id: str, config_ids: Sequence[str], problems_chose: int = 0
) -> dict[str, Difference]:
    """Compare configs with one comparator; return the differences by config id.

    The lower bounds hold for all configs at once (Dunnett, one-sided), because choosing the best of them can only
    push its difference up. Each upper bound holds by itself.

    Args:
        arms: all confirmed configs; each steady one may add to the pooled variance.
        comparator_id: the arm to subtract.
        config_ids: the arms to compare, chosen without looking at `arms`; ones that share no seed are left out.
        problems_chose: number of configs from which results on the same validation problems have chosen the arms to
            compare; 0 if other problems have.
    """
    pairs = Pairs(arms)
    compared = [id_ for id_ in config_ids if id_ != comparator_id and pairs.seeds(id_, comparator_id).any()]
    shared = [pairs.seeds(id_, comparator_id) for id_ in compared]
    correlation = min((_correlation(a, b) for index, a in enumerate(shared) for b in shared[:index]), default=0.5)
    bounded: dict[str, Difference] = {}
    for id_ in compared:
        plain = pairs.difference(id_, comparator_id)
        family = len(compared) if plain.num_problems is None else max(len(compared), problems_chose)
        bounded[id_] = _with_bounds(replace(plain, family=family), correlation)
    return bounded


def _with_bounds(plain: Difference, correlation: float) -> Difference:
    parts = plain.parts
    if parts is None:
        return plain
    below = parts.lower_width(plain.family, correlation)
    return replace(
        plain,
        low=plain.difference - below,
        high=plain.difference + parts.upper_width(),
        detectable=detectable_effect(below / parts.total, parts.df) * parts.total,
    )


def _correlation(one_S: Flags, other_S: Flags) -> float:
    """Return the correlation of two differences from the same comparator: 1/2 when both have the same seeds."""
    return int((one_S & other_S).sum()) / (2 * math.sqrt(int(one_S.sum()) * int(other_S.sum())))


class Pairs:
    """All confirmed configs, for differences between any two of them."""

    def __init__(self, arms: Sequence[Arm]) -> None:
        seeds = sorted({seed for arm in arms for seed in arm.values})
        self._row = {arm.config_id: row for row, arm in enumerate(arms)}
        self._steady = [row for row, arm in enumerate(arms) if arm.steady]
        values = [[arm.values.get(seed, math.nan) for seed in seeds] for arm in arms]
        self._values_AS = np.array(values, dtype=float).reshape(len(arms), len(seeds))
        self._pools: dict[frozenset[int], Squares] = {}
        self._rates_ASP = _rates(arms, seeds)

    def seeds(self, config_id: str, other_id: str) -> Flags:
        """Return for each seed whether both have a result."""
        one_S, other_S = self._values_AS[self._row[config_id]], self._values_AS[self._row[other_id]]
        return ~(np.isnan(one_S) | np.isnan(other_S))

    def difference(self, config_id: str, other_id: str) -> Difference:
        """Compare two configs that share a seed or more.

        The variance is the pooled one, or the pair's own where that is plainly larger. With a config that collapsed or
        is far noisier than the others, the pair also stands on its own degrees of freedom.
        """
        one, other = self._row[config_id], self._row[other_id]
        deltas = (self._values_AS[one] - self._values_AS[other])[self.seeds(config_id, other_id)]
        n, estimate = len(deltas), float(deltas.mean()) if len(deltas) else 0.0
        if n < MIN_SEEDS:
            return Difference(n, estimate)
        variance, df, pooled = float(deltas.var(ddof=1)) / 2, n - 1, False
        # a pair that stands alone has an empty pool, with fewer degrees of freedom than its own
        pool = (0.0, 0) if {one, other} & self._alone else self._residual_of(self._calm | {one, other})
        if pool[1] >= df:
            own = variance * df, df
            pooled = not _plainly_larger(own, (pool[0] - own[0], pool[1] - df), NOISIER)
            variance, df = pool[0] / pool[1] if pooled else variance, pool[1]
        if variance <= _NO_VARIANCE:
            return Difference(n, estimate)
        seeds, problems = math.sqrt(2 * variance / n), self._problems(one, other)
        plain = Difference(n, estimate, seeds, seeds, df, variance="pooled" if pooled else "pair")
        if problems is None:
            return plain
        part = math.sqrt(problems.variance)
        return replace(
            plain,
            standard_error=math.hypot(seeds, part),
            num_problems=problems.num_problems,
            problem_error=part,
            problem_df=problems.df,
        )

    def _problems(self, one: int, other: int) -> ProblemError | None:
        """Estimate the problems' part of a pair's error; None unless every shared seed of both was counted."""
        shared_S = ~np.isnan(self._values_AS[one] - self._values_AS[other])
        deltas_SP = (self._rates_ASP[one] - self._rates_ASP[other])[shared_S]
        if np.isnan(deltas_SP).all(axis=1).any():
            return None
        return problem_error([deltas_SP[:, ~np.isnan(deltas_SP).any(axis=0)]])

    def spread(self) -> tuple[float, int] | None:
        """Return the error's pooled variance and its degrees of freedom, from any number of seeds.

        None if nothing is left, or if what is left does not vary.
        """
        squares, df = self._residual_of(self._calm)
        return (squares / df, df) if df and squares / df > _NO_VARIANCE else None

    def _residual_of(self, rows: frozenset[int]) -> Squares:
        if rows not in self._pools:
            self._pools[rows] = _residual(self._values_AS[sorted(rows)])
        return self._pools[rows]

    @cached_property
    def _calm(self) -> frozenset[int]:
        """Indices of the steady configs that are not plainly noisier than the other steady ones."""
        return frozenset(self._against_others) - self._noisier(NOISIER)

    @cached_property
    def _alone(self) -> frozenset[int]:
        """Indices of the configs that collapsed or are far noisier than the others."""
        return self._noisier(FAR_NOISIER) | frozenset(self._row.values()) - frozenset(self._against_others)

    def _noisier(self, level: float) -> frozenset[int]:
        found = self._against_others.items()
        return frozenset(row for row, (own, rest) in found if _plainly_larger(own, rest, level))

    @cached_property
    def _against_others(self) -> dict[int, tuple[Squares, Squares]]:
        """Squares that each steady config adds to the residual of all steady ones, and the residual without it."""
        every = frozenset(self._steady)
        squares, df = self._residual_of(every)
        rests = {row: self._residual_of(every - {row}) for row in self._steady}
        return {row: ((squares - rest[0], df - rest[1]), rest) for row, rest in rests.items()}


def _rates(arms: Sequence[Arm], seeds: Sequence[int]) -> Floats:
    """Return the share of right samples by arm, seed and problem; NaN for a missing one."""
    names = dict.fromkeys(name for arm in arms for rates in arm.rates.values() for name in rates)
    column = {name: place for place, name in enumerate(names)}
    rates_ASP = np.full((len(arms), len(seeds), len(names)), math.nan)
    for row, arm in enumerate(arms):
        for place, seed in enumerate(seeds):
            for name, rate in arm.rates.get(seed, {}).items():
                rates_ASP[row, place, column[name]] = rate
    return rates_ASP


def _plainly_larger(one: Squares, other: Squares, level: float) -> bool:
    """Say whether the first variance is larger than the second (F test)."""
    (squares, df), (rest, rest_df) = one, other
    if df < 1 or rest_df < 1 or rest <= _NO_VARIANCE:  # equal to the last digit, as coarse scores are
        return False
    return squares / df > _f_critical(df, rest_df, level) * rest / rest_df


@lru_cache(maxsize=4096)
def _f_critical(df: int, rest_df: int, level: float) -> float:
    return float(stats.f.ppf(1 - level, df, rest_df))


def _residual(values_AS: Floats) -> Squares:
    """Return residual squares and degrees of freedom of the config + seed model; NaN for a missing result."""
    present_AS = ~np.isnan(values_AS)
    arms, seeds = values_AS.shape
    if present_AS.all():
        if arms < 2 or seeds < 2:
            return 0.0, 0
        left_AS = values_AS - values_AS.mean(axis=1, keepdims=True) - values_AS.mean(axis=0) + values_AS.mean()
        return float((left_AS**2).sum()), (arms - 1) * (seeds - 1)
    rows, columns = np.nonzero(present_AS)
    design = np.zeros((len(rows), arms + seeds))
    design[np.arange(len(rows)), rows] = design[np.arange(len(rows)), arms + columns] = 1
    results = values_AS[present_AS]
    solution, _, rank, _ = np.linalg.lstsq(design, results, rcond=None)
    return float(((results - design @ solution) ** 2).sum()), len(rows) - int(rank)
