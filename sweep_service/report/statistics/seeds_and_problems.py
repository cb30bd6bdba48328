"""The difference of two configs on problems, with an error that counts both the training seeds and the problems.

Model of a difference on one benchmark: d(seed, problem) = mean + seed + problem + rest. Both configs ran on the same
seeds and the same problems. For other seeds and other problems the mean of S x P differences has the variance
var(seed)/S + var(problem)/P + var(rest)/(S P). Two parts estimate it: the variance over seeds of the means over
problems, divided by S, which contains the rest, and what the variance over problems has beyond the rest, divided by P.

Means over several benchmarks share the training seeds: a seed that is lucky on one tends to be lucky on the others. So
the part of the seeds is computed from each seed's mean over benchmarks, never benchmark by benchmark; the part
of the problems, centred within each benchmark, adds up.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sweep_service.report.statistics.critical_values import CONFIDENCE, Floats, lower_critical, student_critical


@dataclass(frozen=True)
class ErrorParts:
    """The standard error of a difference in its two parts, each with its own degrees of freedom.

    Half the width of an interval is the root of the squares of the halves that the parts would have alone (Howe's
    rule), so it is never narrower than with one part alone. One number of degrees of freedom for the sum
    (Satterthwaite) covers less with 3 seeds: docs/statistics.md.
    """

    seeds: float
    """Standard error over training seeds, the rest of the model included."""
    seed_df: int
    problems: float = 0.0
    """Standard error over problems beyond that; 0 where problems are not counted, or differ no more than the rest."""
    problem_df: int = 1

    @property
    def total(self) -> float:
        """Standard error for other seeds and other problems."""
        return math.hypot(self.seeds, self.problems)

    @property
    def df(self) -> int:
        """Degrees of freedom of the total (Satterthwaite), rounded down; for powers, not for intervals."""
        squares = self.seeds**4 / self.seed_df + self.problems**4 / self.problem_df
        return max(1, int(self.total**4 / squares + 1e-9)) if squares else self.seed_df

    def lower_width(
        self, family: int, correlation: float = 0.5, of_problems: float = 0.5, confidence: float = CONFIDENCE
    ) -> float:
        """Return the distance of the lower bound, which holds for `family` configs at once (Dunnett, one-sided).

        `correlation` is that of the configs' differences over seeds, `of_problems` that over problems.
        """
        seeds = lower_critical(family, self.seed_df, correlation, confidence) * self.seeds
        if not self.problems:
            return seeds
        return math.hypot(seeds, lower_critical(family, self.problem_df, of_problems, confidence) * self.problems)

    def upper_width(self, confidence: float = CONFIDENCE) -> float:
        """Return the distance of the upper bound, which holds by itself (Student)."""
        seeds = student_critical(self.seed_df, confidence) * self.seeds
        problems = student_critical(self.problem_df, confidence) * self.problems if self.problems else 0.0
        return math.hypot(seeds, problems)


@dataclass(frozen=True)
class ProblemVariance:
    """The part of a difference's error that other problems of the same kind would change."""

    variance: float
    """Variance of the difference; 0 where problems differ no more than the rest of the model explains."""
    df: int
    """Its degrees of freedom: problems minus 1 for one benchmark; of several, rounded down (Satterthwaite)."""
    num_problems: int
    noise: float
    """Variance that was subtracted: what the rest of the model adds to the problems' means."""


@dataclass(frozen=True)
class PairedDifference:
    """Mean over seeds and problems of (one config minus another)."""

    difference: float
    num_seeds: int
    num_problems: int
    parts: ErrorParts | None
    """The two parts of its error; None for one seed, and where a benchmark has a single problem."""


def paired_difference(config_BSP: Sequence[Floats], other_BSP: Sequence[Floats]) -> PairedDifference | None:
    """Compare two configs on the seeds and problems that both have; benchmarks weigh the same.

    A seed without any value on one of the benchmarks is left out everywhere, since it cannot be paired; then a problem
    without a value on one of the seeds left is left out.

    Args:
        config_BSP: the config's share of right samples, an array (seeds, problems) for each benchmark; NaN where no
            sample was judged. All benchmarks have the same seeds in the same order.
        other_BSP: those of the config to subtract, in the same shapes and orders.
    Returns: None if no seed is left, or no problem of some benchmark.
    Raises: ValueError, if shapes do not fit.
    """
    deltas_BSP: list[Floats] = []
    for one, other in zip(config_BSP, other_BSP, strict=True):
        one_SP, other_SP = np.asarray(one, dtype=float), np.asarray(other, dtype=float)
        if one_SP.ndim != 2 or one_SP.shape != other_SP.shape:
            raise ValueError(
                f"values of two configs have shapes {one_SP.shape} and {other_SP.shape}; both need (seeds, problems)"
            )
        deltas_BSP.append(one_SP - other_SP)
    if len({deltas_SP.shape[0] for deltas_SP in deltas_BSP}) != 1:
        raise ValueError(f"benchmarks with unlike numbers of seeds: {[deltas.shape for deltas in deltas_BSP]}")
    paired_S = np.all([(~np.isnan(deltas_SP)).any(axis=1) for deltas_SP in deltas_BSP], axis=0)
    whole_BSP = [whole_problems(deltas_SP[paired_S]) for deltas_SP in deltas_BSP]
    if not paired_S.any() or any(not deltas_SP.size for deltas_SP in whole_BSP):
        return None
    means_S = np.sum([deltas.mean(axis=1) * (1 / len(whole_BSP)) for deltas in whole_BSP], axis=0)
    seeds, problems, parts = len(means_S), problem_error(whole_BSP), None
    if problems is not None:
        of_seeds = math.sqrt(float(means_S.var(ddof=1)) / seeds)
        parts = ErrorParts(of_seeds, seeds - 1, math.sqrt(problems.variance), problems.df)
    num_problems = sum(deltas.shape[1] for deltas in whole_BSP)
    return PairedDifference(float(means_S.mean()), seeds, num_problems, parts)


def problem_error(deltas_BSP: Sequence[Floats]) -> ProblemVariance | None:
    """Estimate the part of the problems from differences without missing values.

    The variance of problems' means over seeds also contains the rest of the model. What the rest adds is subtracted,
    because the part of the seeds has it already; below zero the estimate is 0.

    Args:
        deltas_BSP: differences, an array (seeds, problems) for each benchmark.
    Returns: None with fewer than two seeds, or two problems of each benchmark.
    """
    share, total, rest, squares = 1 / len(deltas_BSP), 0.0, 0.0, 0.0
    for deltas_SP in deltas_BSP:
        seeds, problems = deltas_SP.shape
        if seeds < 2 or problems < 2:
            return None
        means_P, means_S = deltas_SP.mean(axis=0), deltas_SP.mean(axis=1)
        left_SP = deltas_SP - means_P - means_S[:, None] + means_P.mean()
        part = share**2 * float(means_P.var(ddof=1)) / problems
        total, squares = total + part, squares + part**2 / (problems - 1)
        rest += share**2 * float((left_SP**2).sum()) / ((seeds - 1) * (problems - 1) * seeds * problems)
    num_problems = sum(deltas.shape[1] for deltas in deltas_BSP)
    df = int(total**2 / squares + 1e-9) if squares else num_problems - len(deltas_BSP)
    return ProblemVariance(max(total - rest, 0.0), df, num_problems, rest)


def whole_problems(deltas_SP: Floats) -> Floats:
    """Leave out the problems that lack a value on a seed."""
    return deltas_SP[:, ~np.isnan(deltas_SP).any(axis=0)]
