"""Means and paired differences of configs over training seeds, with intervals that hold for the best of several.

Model of the confirm stage: result(config, seed) = config + seed + error. The seeds are the same for every config, so a
difference of two configs is free of the seeds' part. The error's variance is the pair's own, drawn towards that of the
other configs' differences from the same comparator. Results that are all equal give a variance of 0, which counts as
unknown, so that there is no interval. Where the right samples of each validation problem were counted, other problems
are part of the error too (`seeds_and_problems`), from the pair alone. Simulations behind the choices:
docs/statistics.md.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from sweep_service.report.statistics.critical_values import CONFIDENCE, detectable_effect, student_critical
from sweep_service.report.statistics.seeds_and_problems import (
    ErrorParts,
    ProblemDeltas,
    ProblemVariance,
    problem_error,
)
from sweep_service.sweep.spec import MIN_SEEDS

EQUAL: Final = "all of them gave the same, so nothing can be said of their spread"
"""Reason why `MIN_SEEDS` seeds or more may have no interval."""
MOST_LENT: Final = 10
"""Most degrees of freedom that other pairs lend to a pair, and no more than twice its own."""
_CAP: Final = 6
"""A variance enters the mean with at most exp(`_CAP` / degrees of freedom) times the median: a config may be noisy."""
_NO_VARIANCE: Final = 1e-18  # at most what rounding leaves of equal scores

Flags = npt.NDArray[np.bool_]


class Problem(NamedTuple):
    """A problem on which configs are compared."""

    name: str
    group: str
    """Name of the problems that are alike: those of one group are drawn together."""
    benchmark: str = ""


@dataclass(frozen=True)
class Arm:
    """The results of one config."""

    config_id: str
    values: Mapping[int, float]
    """Objective by seed; a seed whose trial failed is missing."""
    steady: bool = True
    """True if no run of the config was ruined, so that its spread says something about that of the others."""
    rates: Mapping[int, Mapping[Problem, float]] = field(default_factory=dict[int, Mapping[Problem, float]])
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
    """Number of problems that the error counts; None where it does not count them."""
    num_groups: int | None = None
    """Number of groups among them, which are independent of each other."""
    problem_error: float | None = None
    """The part of the standard error that other problems would change."""
    problem_df: int | None = None
    family: int = 1
    """Number of configs for which the lower bounds against their comparators hold at once."""
    variance: Literal["pooled", "pair"] | None = None
    """Source of the variance: also other configs' differences, or this pair alone; None without a standard error."""
    confidence: float = CONFIDENCE
    """Confidence of the interval."""
    low: float | None = None
    """Bounds, which `differences` adds where there is a standard error."""
    high: float | None = None
    detectable: float | None = None
    """True difference that would be told from zero with 80 % probability."""
    with_ruined: bool = False
    """Whether ruined runs count, because too few pairs are left without them."""

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
    arms: Sequence[Arm],
    comparators: Mapping[str, str],
    problems_chose: int = 0,
    *,
    shared: bool = True,
    confidence: float = CONFIDENCE,
) -> dict[str, Difference]:
    """Compare each of some configs with its comparator; return the differences by config id.

    The lower bounds hold for all configs at once (Dunnett, one-sided), because choosing the best of them can only
    push its difference up. Each upper bound holds by itself.

    Args:
        arms: all confirmed configs; each steady one lends its spread to the other pairs with its comparator.
        comparators: by the id of each arm to compare that of the arm to subtract, both chosen without looking at
            `arms`; arms that share no seed with theirs are left out.
        problems_chose: number of configs from which results on the same validation problems have chosen the arms to
            compare; 0 if other problems have.
        shared: whether all configs that could have been chosen have one comparator.
        confidence: confidence of each interval; its two bounds may err equally often.
    """
    pairs = Pairs(arms)
    compared = [_Pair(*ids, pairs.seeds(*ids)) for ids in comparators.items() if ids[0] != ids[1]]
    compared = [pair for pair in compared if pair.seeds_S.any()]
    couples = [(one, other) for index, one in enumerate(compared) for other in compared[:index]]
    most = 0.5 if shared else 0.0
    correlation = min((_link(*couple) * _overlap(*couple) for couple in couples), default=most)
    of_problems = min((_link(*couple) for couple in couples), default=most)
    bounded: dict[str, Difference] = {}
    for pair in compared:
        plain = pairs.difference(pair.config_id, pair.comparator_id)
        family = len(compared) if plain.num_problems is None else max(len(compared), problems_chose)
        plain = replace(plain, family=family, confidence=confidence)
        if (parts := plain.parts) is not None:
            low, high = parts.interval(plain.difference, family, correlation, of_problems, confidence)
            critical = (plain.difference - low) / parts.total
            plain = replace(plain, low=low, high=high, detectable=detectable_effect(critical, parts.df) * parts.total)
        bounded[pair.config_id] = plain
    return bounded


def sound_differences(
    sound: Sequence[Arm],
    every: Sequence[Arm],
    comparators: Mapping[str, str],
    problems_chose: int = 0,
    *,
    shared: bool = True,
    confidence: float = CONFIDENCE,
) -> dict[str, Difference]:
    """Compare configs without their ruined runs; where too few pairs are left so, these count.

    Args:
        sound: the arms without their ruined runs.
        every: the same with them.
        comparators, problems_chose, shared, confidence: those of `differences`.
    """
    without, with_them = (
        differences(arms, comparators, problems_chose, shared=shared, confidence=confidence) for arms in (sound, every)
    )
    return {
        id_: without[id_]
        if id_ in without and without[id_].num_seeds >= min(MIN_SEEDS, result.num_seeds)
        else replace(result, with_ruined=True)
        for id_, result in with_them.items()
    }


class _Pair(NamedTuple):
    """A config and its comparator, and for each seed whether both have a result."""

    config_id: str
    comparator_id: str
    seeds_S: Flags


def _link(one: _Pair, other: _Pair) -> float:
    """Return the correlation of two pairs' differences on the same seeds: 1/2 if they share their comparator, else 0.

    The seeds' own effects cancel in each difference, so two pairs without a common config have nothing in common. Where
    one pair's config is the other's comparator it is -1/2; 0 in its place changes the bounds by less than 1 %.
    """
    return 0.5 if one.comparator_id == other.comparator_id else 0.0


def _overlap(one: _Pair, other: _Pair) -> float:
    """Return the share of seeds that two pairs have in common: 1 for exactly the same ones."""
    both, sizes = int((one.seeds_S & other.seeds_S).sum()), int(one.seeds_S.sum()) * int(other.seeds_S.sum())
    return both / math.sqrt(sizes)


class Pairs:
    """All confirmed configs, for differences between any two of them."""

    def __init__(self, arms: Sequence[Arm]) -> None:
        seeds = sorted({seed for arm in arms for seed in arm.values})
        self._row = {arm.config_id: row for row, arm in enumerate(arms)}
        self._steady_A = np.array([arm.steady for arm in arms], dtype=bool)
        values = [[arm.values.get(seed, math.nan) for seed in seeds] for arm in arms]
        self._values_AS = np.array(values, dtype=float).reshape(len(arms), len(seeds))
        problems = [*dict.fromkeys(problem for arm in arms for rates in arm.rates.values() for problem in rates)]
        self._groups_P = np.array([problem.group for problem in problems], dtype=str)
        self._benchmarks_P = np.array([problem.benchmark for problem in problems], dtype=str)
        rates = [[[arm.rates.get(seed, {}).get(one, math.nan) for one in problems] for seed in seeds] for arm in arms]
        self._rates_ASP = np.array(rates, dtype=float).reshape(len(arms), len(seeds), len(problems))
        deltas_AAS = self._values_AS[:, None] - self._values_AS
        self._num_AA = np.logical_not(np.isnan(deltas_AAS)).sum(axis=2)
        self._means_AA = np.nansum(deltas_AAS, axis=2) / np.maximum(self._num_AA, 1)
        squares_AA = np.nansum((deltas_AAS - self._means_AA[:, :, None]) ** 2, axis=2)
        self._variances_AA = squares_AA / np.maximum(self._num_AA - 1, 1) / 2  # of one result, hence half

    def has(self, *config_ids: str) -> bool:
        """Return True if all of these configs have runs."""
        return all(id_ in self._row for id_ in config_ids)

    def seeds(self, config_id: str, other_id: str) -> Flags:
        """Return for each seed whether both have a result."""
        one_S, other_S = self._values_AS[self._row[config_id]], self._values_AS[self._row[other_id]]
        return ~(np.isnan(one_S) | np.isnan(other_S))

    def difference(self, config_id: str, other_id: str) -> Difference:
        """Compare two configs; with the other way round the variance is that of the other comparator's pairs."""
        one, other = self._row[config_id], self._row[other_id]
        n, estimate = int(self._num_AA[one, other]), float(self._means_AA[one, other])
        if n < MIN_SEEDS:
            return Difference(n, estimate)
        variance, df = self._variance(one, other)
        if variance <= _NO_VARIANCE:
            return Difference(n, estimate)
        seeds, problems = math.sqrt(2 * variance / n), self.problems(config_id, other_id)
        plain = Difference(n, estimate, seeds, seeds, df, variance="pooled" if df > n - 1 else "pair")
        if problems is None:
            return plain
        part = math.sqrt(problems.variance)
        return replace(
            plain,
            standard_error=math.hypot(seeds, part),
            num_problems=problems.num_problems,
            num_groups=problems.num_groups,
            problem_error=part,
            problem_df=problems.df,
        )

    def _variance(self, one: int, other: int) -> tuple[float, int]:
        """Return the moderated variance of a pair's error, with its degrees of freedom.

        It lies between the pair's own and the mean over all pairs with the same comparator. These share its noise, so
        a noisy comparator shows in each of them, and configs that resemble each other, but not the comparator, do not
        make them look quieter. They are correlated: hence the pair's own counts twice, and they have one degree of
        freedom less than in sum. With a config of which a run was ruined the pair stands alone.
        """
        own, df = float(self._variances_AA[one, other]), int(self._num_AA[one, other]) - 1
        num_A, variances_A = self._num_AA[:, other], self._variances_AA[:, other]
        lends_A = self._steady_A & (num_A >= MIN_SEEDS) & (variances_A > _NO_VARIANCE)
        lends_A[[one, other]] = False
        lent = min(int((num_A[lends_A] - 1).sum()), 2 * df, MOST_LENT) if self._steady_A[[one, other]].all() else 0
        if not lent:
            return own, df
        spreads = np.append(variances_A[lends_A], own)
        pooled = float(np.minimum(spreads, math.exp(_CAP / df) * np.median(spreads)).mean())
        return (lent * pooled + 2 * df * own) / (lent + 2 * df), df + lent - 1

    def problems(self, config_id: str, other_id: str) -> ProblemVariance | None:
        """Estimate the problems' part of two configs' error; None unless every shared seed of both was counted.

        A problem that lacks a value on one of these seeds is left out.
        """
        one, other = self._row[config_id], self._row[other_id]
        deltas_SP = (self._rates_ASP[one] - self._rates_ASP[other])[self.seeds(config_id, other_id)]
        missing_SP = np.isnan(deltas_SP)
        if not len(deltas_SP) or missing_SP.all(axis=1).any():
            return None
        whole_P = ~missing_SP.any(axis=0)
        parts = [whole_P & (self._benchmarks_P == name) for name in dict.fromkeys(self._benchmarks_P.tolist())]
        return problem_error([ProblemDeltas(deltas_SP[:, part_P], self._groups_P[part_P]) for part_P in parts])

    def spread(self) -> tuple[float, int] | None:
        """Return the variance of all steady configs' error and its degrees of freedom, from any number of seeds.

        None if there is none, or if nothing varies.
        """
        steady_AA = self._steady_A & self._steady_A[:, None] & ~np.eye(len(self._steady_A), dtype=bool)
        weights_AA = np.where(steady_AA, np.maximum(self._num_AA - 1, 0), 0)
        df = int(weights_AA.sum() / max(1, self._steady_A.sum()))
        variance = float((weights_AA * self._variances_AA).sum() / max(1, weights_AA.sum()))
        return (variance, df) if df and variance > _NO_VARIANCE else None
