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
import numpy.typing as npt

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

    def interval(
        self, estimate: float, family: int, correlation: float, of_problems: float, confidence: float
    ) -> tuple[float, float]:
        """Return the bounds of a difference: the lower one holds for `family` configs at once, the upper by itself."""
        below = self.lower_width(family, correlation, of_problems, confidence)
        return estimate - below, estimate + self.upper_width(confidence)

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
    """Its degrees of freedom, rounded down: problems minus 1 for one benchmark of which no two are alike."""
    num_problems: int
    num_groups: int
    """Number of groups among them, which are independent of each other."""
    noise: float
    """Variance that was subtracted: what the rest of the model adds to the problems' means."""


@dataclass(frozen=True)
class ProblemDeltas:
    """Differences of two configs on the problems of one benchmark."""

    deltas_SP: Floats
    """Differences (seeds, problems); none is missing."""
    groups_P: npt.NDArray[np.str_]
    """Name of each problem's group: problems of one group are as good as repetitions of one problem."""


def problem_error(benchmarks: Sequence[ProblemDeltas]) -> ProblemVariance | None:
    """Estimate the part of the problems, which are drawn group by group; benchmarks weigh the same.

    The variance of groups' means over seeds also contains the rest of the model. What the rest adds is subtracted,
    because the part of the seeds has it already; below zero the estimate is 0.

    Returns: None with fewer than two seeds, or two groups of each benchmark.
    """
    share, total, rest, squares, num_groups = 1 / len(benchmarks), 0.0, 0.0, 0.0, 0
    for one in benchmarks:
        names, group_P = np.unique(one.groups_P, return_inverse=True)
        seeds, problems = one.deltas_SP.shape
        if seeds < 2 or len(names) < 2:
            return None
        member_PG = np.eye(len(names))[group_P]
        sizes_G = member_PG.sum(axis=0)
        groups = _Groups(sizes_G / problems)
        means_SG = one.deltas_SP @ member_PG / sizes_G
        apart_SG = means_SG - one.deltas_SP.mean(axis=1, keepdims=True)
        part = share**2 * groups.variance(apart_SG.mean(axis=0))
        total, squares = total + part, squares + part**2 / groups.df
        left_SG = apart_SG - apart_SG.mean(axis=0)
        rest += share**2 * sum(groups.variance(left_G) for left_G in left_SG) / (seeds - 1) / seeds
        num_groups += len(names)
    num_problems = sum(one.deltas_SP.shape[1] for one in benchmarks)
    df = int(total**2 / squares + 1e-9) if squares else num_groups - len(benchmarks)
    return ProblemVariance(max(total - rest, 0.0), max(1, df), num_problems, num_groups, rest)


class _Groups:
    """The variance of a mean over problems, by what the means of their groups show.

    A group weighs as many problems as it has. One of weight w lies closer to the mean, since it is a part of it: its
    squared distance is, on average over equally varied groups, their variance times 1 - 2w + sum(w²). So each square is
    divided by that, and the sum is unbiased whatever the weights. Its degrees of freedom are those of the quadratic
    form (Bell and McCaffrey 2002): the number of groups less 1 where all weigh the same, fewer where one is large.
    """

    def __init__(self, weights_G: Floats) -> None:
        self._sum = float((weights_G**2).sum())
        self._factors_G = weights_G**2 / (1 - 2 * weights_G + self._sum)
        self._weights_G = weights_G

    def variance(self, apart_G: Floats) -> float:
        """Return the variance of the mean, from the distances of groups' means from it."""
        return float(self._factors_G @ apart_G**2)

    @property
    def df(self) -> float:
        """Degrees of freedom of that variance."""
        f, w, s = self._factors_G, self._weights_G, self._sum
        a, b, c = float(f.sum()), float(f @ w), float(f @ w**2)
        off = s**2 * a**2 + 2 * a * c - 4 * s * a * b + 2 * b**2
        return s**2 / (float(f**2 @ (1 + 2 * s - 4 * w)) + off)
