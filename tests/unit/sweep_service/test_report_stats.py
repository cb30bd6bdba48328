import math

import numpy as np
import pytest
from scipy import stats

from sweep_service.report.stats import Arm, differences, dunnett_critical, mean_interval


def arms_of(results: dict[str, list[float]], unsteady: tuple[str, ...] = ()) -> list[Arm]:
    return [
        Arm(name, {seed: value for seed, value in enumerate(values) if not math.isnan(value)}, name not in unsteady)
        for name, values in results.items()
    ]


@pytest.mark.parametrize(("family", "df"), [(2, 6), (3, 12), (5, 10), (10, 4)])
def test_dunnett_critical_agrees_with_scipys_multivariate_t(family: int, df: int) -> None:
    critical = dunnett_critical(family, df)
    correlation = np.full((family, family), 0.5) + 0.5 * np.eye(family)
    inside = stats.multivariate_t(shape=correlation, df=df).cdf(
        np.full(family, critical), lower_limit=np.full(family, -critical), maxpts=100_000, random_state=0
    )
    assert inside == pytest.approx(0.95, abs=3e-4)


def test_dunnett_critical_of_one_comparison_is_students() -> None:
    assert dunnett_critical(1, 7) == pytest.approx(stats.t.ppf(0.975, 7))


def test_weaker_correlation_asks_for_more() -> None:
    assert dunnett_critical(4, 9, 0.2) > dunnett_critical(4, 9, 0.5)


def test_two_steady_arms_give_the_paired_t_interval() -> None:
    results = {"base": [0.70, 0.72, 0.69, 0.75], "new": [0.74, 0.73, 0.75, 0.77]}
    (found,) = differences(arms_of(results), "base", ["new"])
    expected = stats.ttest_rel(results["new"], results["base"]).confidence_interval(0.95)
    assert found.half_width is not None
    assert found.estimate - found.half_width == pytest.approx(expected.low)
    assert found.estimate + found.half_width == pytest.approx(expected.high)


def test_seed_effects_cancel() -> None:
    shift = np.array([5.0, -3.0, 8.0, 0.5])
    plain = {"base": [0.1, 0.3, 0.2, 0.4], "a": [0.5, 0.4, 0.6, 0.4], "b": [0.2, 0.2, 0.1, 0.3]}
    shifted = {name: list(np.array(values) + shift) for name, values in plain.items()}
    for before, after in zip(
        differences(arms_of(plain), "base", ["a", "b"]),
        differences(arms_of(shifted), "base", ["a", "b"]),
        strict=True,
    ):
        assert after.estimate == pytest.approx(before.estimate)
        assert after.half_width == pytest.approx(before.half_width)


def test_a_quiet_pair_borrows_the_pooled_variance() -> None:
    results = {"base": [0.5, 0.6, 0.7], "quiet": [0.6, 0.7, 0.8], "other": [0.7, 0.5, 0.6]}
    found = differences(arms_of(results), "base", ["quiet", "other"])[0]
    assert found.pooled
    assert found.df == 4
    assert found.half_width is not None
    assert found.half_width > 0.1


def test_a_noisy_pair_stands_on_its_own_variance() -> None:
    results = {"base": [0.5, 0.6, 0.7, 0.5], "noisy": [0.9, 0.1, 0.8, 0.2], "a": [0.5, 0.6, 0.7, 0.5]}
    noisy, quiet = differences(arms_of(results), "base", ["noisy", "a"])
    assert not noisy.pooled
    assert noisy.standard_error == pytest.approx(np.std(np.subtract(results["noisy"], results["base"]), ddof=1) / 2)
    assert quiet.pooled


def test_a_collapsed_arm_does_not_widen_the_others() -> None:
    results = {"base": [0.5, 0.6, 0.7, 0.5], "a": [0.6, 0.7, 0.7, 0.6], "dead": [0.9, 0.0, 0.8, 0.0]}
    alone = differences(arms_of({name: results[name] for name in ("base", "a")}), "base", ["a"])[0]
    beside, dead = differences(arms_of(results, unsteady=("dead",)), "base", ["a", "dead"])
    assert beside.standard_error == pytest.approx(alone.standard_error)
    assert dead.df == 3


def test_only_seeds_that_both_have_count() -> None:
    nan = math.nan
    results = {"base": [0.5, 0.6, 0.7, 0.5, nan], "a": [0.6, nan, 0.8, 0.6, 0.9], "b": [0.5, 0.6, 0.6, 0.5, 0.4]}
    found = differences(arms_of(results), "base", ["a", "b"])
    assert [difference.num_seeds for difference in found] == [3, 4]
    assert found[0].estimate == pytest.approx(0.1)


def test_fewer_than_three_seeds_give_no_interval() -> None:
    (found,) = differences(arms_of({"base": [0.5, 0.6], "a": [0.9, 0.9]}), "base", ["a"])
    assert found.estimate == pytest.approx(0.35)
    assert found.half_width is None
    assert found.detectable is None
    assert mean_interval([0.5, 0.6]).low is None


def test_equal_results_give_an_interval_of_no_width() -> None:
    (found,) = differences(arms_of({"base": [0.0] * 4, "a": [0.0] * 4}, unsteady=("base", "a")), "base", ["a"])
    assert (found.estimate, found.half_width) == (0.0, 0.0)


def test_the_mean_interval_is_students() -> None:
    found = mean_interval([0.7, 0.8, 0.75, 0.9])
    low, high = stats.t.interval(0.95, 3, loc=0.7875, scale=stats.sem([0.7, 0.8, 0.75, 0.9]))
    assert (found.low, found.high) == (pytest.approx(low), pytest.approx(high))


def test_a_plainly_noisier_config_does_not_widen_the_others() -> None:
    results = {
        "base": [0.80, 0.83, 0.77, 0.81],
        "a": [0.84, 0.79, 0.80, 0.80],
        "wild": [0.75, 0.25, 0.60, 0.30],
    }
    found = differences(arms_of(results), "base", ["a", "wild"])[0]
    own = np.std(np.subtract(results["a"], results["base"]), ddof=1) / 2
    assert found.standard_error == pytest.approx(own)
    assert found.df == 3
