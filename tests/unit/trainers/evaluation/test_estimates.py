import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest

from trainers.evaluation.estimates import (
    Counts,
    average,
    average_pass_at_k,
    majority_right,
    pass_at_k,
    pass_at_k_variance,
)


def _expected(function: Callable[[int], float], samples: int, chance: float) -> float:
    """The exact expectation over the number of right ones among `samples` independent samples."""
    return sum(
        math.comb(samples, right) * chance**right * (1 - chance) ** (samples - right) * function(right)
        for right in range(samples + 1)
    )


@pytest.mark.parametrize(("samples", "right", "k"), [(5, 2, 3), (6, 0, 2), (6, 6, 1), (7, 3, 7), (4, 3, 2)])
def test_pass_at_k_is_the_share_of_subsets_with_a_right_sample(samples: int, right: int, k: int) -> None:
    subsets = list(itertools.combinations([True] * right + [False] * (samples - right), k))
    assert math.isclose(pass_at_k(samples, right, k), sum(map(any, subsets)) / len(subsets))


@pytest.mark.parametrize("chance", [0.0, 0.03, 0.4, 0.97, 1.0])
@pytest.mark.parametrize(("samples", "k"), [(2, 1), (8, 1), (8, 3), (8, 4), (32, 16)])
def test_pass_at_k_and_its_variance_are_unbiased(samples: int, k: int, chance: float) -> None:
    passed = _expected(lambda right: pass_at_k(samples, right, k), samples, chance)
    assert passed == pytest.approx(1 - (1 - chance) ** k, abs=1e-12)
    true_variance = _expected(lambda right: (pass_at_k(samples, right, k) - passed) ** 2, samples, chance)
    estimated = _expected(lambda right: pass_at_k_variance(samples, right, k), samples, chance)
    assert estimated == pytest.approx(true_variance, abs=1e-12)


def test_the_sampling_error_is_that_of_sampling_alone() -> None:
    assert average([[1, 0, 1, 0], [1, 1, 1, 1]]).sampling_se == pytest.approx(math.sqrt((1 / 3) / 4) / 2)
    assert average([[1, 1], [0, 0]]).sampling_se == 0.0  # sampling these problems again would change nothing
    assert average([[1.0], [0.0]]).sampling_se is None


def test_the_problem_error_is_that_of_the_problems_means() -> None:
    assert average([[1, 1], [0, 0], [1, 0]]).problem_se == pytest.approx(np.std([1, 0, 0.5], ddof=1) / math.sqrt(3))
    assert average([[1, 0], [1, 1]]).problem_se == 0.25
    assert average([[1, 0]]).problem_se is None


def test_problems_without_a_judged_sample_are_left_out_and_the_others_weigh_the_same() -> None:
    assert average([[1, 1, 1, 0], [], [0]]).mean == 0.375
    assert average([[], []]) == average([]) == (None, None, None, 0)
    passed = average_pass_at_k([Counts(4, 4), Counts(1, 0), Counts(4, 0)], 2)
    assert (passed.mean, passed.problems) == (0.5, 2)
    assert average_pass_at_k([Counts(1, 1)], 2) == (None, None, None, 0)


def test_pass_at_k_has_no_sampling_error_without_twice_as_many_samples_of_every_problem() -> None:
    assert average_pass_at_k([Counts(8, 4), Counts(8, 1)], 4).sampling_se is not None
    assert average_pass_at_k([Counts(8, 4), Counts(7, 1)], 4).sampling_se is None


def test_the_majority_is_counted_among_samples_with_an_answer_and_ties_are_shared() -> None:
    assert majority_right(["7", "7", "3"], [True, True, False]) == 1.0
    assert majority_right(["7", "3", "3", None, None, None], [True, False, False, False, False, False]) == 0.0
    assert majority_right(["7", "3"], [True, False]) == 0.5
    assert majority_right(["7", None, None], [True, False, False]) == 1.0
    assert majority_right([None], [False]) == 0.0
