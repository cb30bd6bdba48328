"""Averages over problems that were each sampled several times, with standard errors. Imports no torch.

Every average has two errors. The *sampling* error is how much sampling the same problems again would change it; it
tells two checkpoints apart on one benchmark. The *problem* error is how much it would change with other problems of the
same kind, sampled anew; it says how well the average speaks for more than this set. The second contains the first.
"""

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from typing import NamedTuple


class Estimate(NamedTuple):
    """A mean over problems of equal weight and its errors; None where the data do not determine a value."""

    mean: float | None
    sampling_se: float | None
    """Standard error for fixed problems."""
    problem_se: float | None
    """Standard error for problems drawn from a population; contains the sampling error."""
    problems: int
    """Number of problems in the mean: those with enough judged samples."""


class Counts(NamedTuple):
    """Number of judged samples of one problem, and of right ones among them."""

    samples: int
    right: int


def average(groups: Sequence[Sequence[float]]) -> Estimate:
    """Average each problem's mean value over the problems that have one (avg@k).

    The sampling error needs two values of each problem, the problem error two problems.
    """
    values = [group for group in groups if group]
    variances = [_variance(group) / len(group) if len(group) > 1 else None for group in values]
    return _over_problems([sum(group) / len(group) for group in values], variances)


def average_pass_at_k(counts: Sequence[Counts], k: int) -> Estimate:
    """Average `pass_at_k` over the problems with at least `k` judged samples.

    The sampling error needs 2 `k` samples of each problem, the problem error two problems.
    """
    usable = [count for count in counts if count.samples >= k]
    return _over_problems(
        [pass_at_k(*count, k) for count in usable],
        [pass_at_k_variance(*count, k) if count.samples >= 2 * k else None for count in usable],
    )


def pass_at_k(samples: int, right: int, k: int) -> float:
    """Estimate without bias the chance that one of `k` samples is right: 1 - C(n - c, k) / C(n, k).

    Source: arXiv:2107.03374. Needs k <= samples.
    """
    return 1 - _all_wrong(samples, right, k)


def pass_at_k_variance(samples: int, right: int, k: int) -> float:
    """Estimate without bias the variance of `pass_at_k` over sampling. Needs 2 k <= samples.

    Let q be the chance of a wrong sample, and W(k) = C(n - c, k) / C(n, k). As E[W(k)] = q^k for every k <= n, the
    variance E[W(k)^2] - q^(2k) is estimated by W(k)^2 - W(2k), which is never negative. With fewer samples there is no
    unbiased estimate: q^(2k) is no expectation of a function of n samples. For k = 1 it is the sample variance over n.
    """
    return _all_wrong(samples, right, k) ** 2 - _all_wrong(samples, right, 2 * k)


def majority_right(answers: Sequence[Hashable | None], right: Sequence[bool]) -> float:
    """Score the most frequent answer of one problem: 1 if it is right, 0 if not, between them where such answers tie.

    Samples without an answer (None) do not vote; if none votes, the majority is wrong.
    """
    votes = Counter(answer for answer in answers if answer is not None)
    verdicts = dict(zip(answers, right, strict=True))
    leaders = [answer for answer, count in votes.items() if count == max(votes.values())]
    return mean([verdicts[answer] for answer in leaders]) or 0.0


def mean(values: Sequence[float]) -> float | None:
    """Return the mean, None for no values."""
    return sum(values) / len(values) if values else None


def _all_wrong(samples: int, right: int, k: int) -> float:
    """Return the share of the subsets of size `k` that have no right sample."""
    return math.comb(samples - right, k) / math.comb(samples, k)


def _over_problems(means: Sequence[float], variances: Sequence[float | None]) -> Estimate:
    defined = [variance for variance in variances if variance is not None]
    complete = 0 < len(defined) == len(variances)
    return Estimate(
        mean(means),
        math.sqrt(sum(defined)) / len(means) if complete else None,
        math.sqrt(_variance(means) / len(means)) if len(means) > 1 else None,
        len(means),
    )


def _variance(values: Sequence[float]) -> float:
    """Return the unbiased sample variance of two or more values."""
    center = sum(values) / len(values)
    return sum((value - center) ** 2 for value in values) / (len(values) - 1)
