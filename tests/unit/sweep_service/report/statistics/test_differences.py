import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from sweep_service.report.statistics.critical_values import detectable_effect, lower_critical, power, student_critical
from sweep_service.report.statistics.differences import (
    Arm,
    Difference,
    Pairs,
    Problem,
    differences,
    mean_interval,
)
from sweep_service.report.statistics.seeds_and_problems import ErrorParts, ProblemDeltas, problem_error


def arms_of(results: dict[str, list[float]], unsteady: tuple[str, ...] = ()) -> list[Arm]:
    return [
        Arm(name, {seed: value for seed, value in enumerate(values) if not math.isnan(value)}, name not in unsteady)
        for name, values in results.items()
    ]


def compared(arms: Sequence[Arm], comparator_id: str, config_ids: Sequence[str]) -> list[Difference]:
    return [*differences(arms, dict.fromkeys(config_ids, comparator_id)).values()]


def width(found: Difference) -> float:
    return found.high - found.low


@pytest.mark.parametrize(("family", "df"), [(2, 6), (3, 12), (5, 10), (10, 4)])
def test_lower_critical_agrees_with_scipys_multivariate_t(family: int, df: int) -> None:
    critical = lower_critical(family, df)
    correlation = np.full((family, family), 0.5) + 0.5 * np.eye(family)
    inside = stats.multivariate_t(shape=correlation, df=df).cdf(
        np.full(family, critical),
        lower_limit=np.full(family, -np.inf),
        maxpts=100_000,
        random_state=0,
    )
    assert inside == pytest.approx(0.975, abs=3e-4)


def test_lower_critical_of_one_comparison_is_students() -> None:
    assert lower_critical(1, 7) == student_critical(7) == pytest.approx(stats.t.ppf(0.975, 7))
    assert student_critical(7.5, 0.9) == pytest.approx(stats.t.ppf(0.95, 7.5))


def test_weaker_correlation_asks_for_more() -> None:
    assert lower_critical(4, 9, 0.2) > lower_critical(4, 9, 0.5)


@pytest.mark.parametrize("df", [1, 2, 6, 24, 499])
@pytest.mark.parametrize("critical", [1.7, 2.0, 3.163, 4.3, 12.7])
def test_the_detectable_effect_is_found_with_80_percent_probability_for_any_critical_value(
    critical: float, df: int
) -> None:
    effect = detectable_effect(critical, df)
    assert stats.nct.cdf(critical, df, effect) == pytest.approx(0.2, abs=1e-3)
    assert power(critical, df, effect) == pytest.approx(0.8, abs=1e-3)
    assert power(critical, df, 1e4) == 1.0


def test_two_steady_arms_give_the_paired_t_interval() -> None:
    results = {"base": [0.70, 0.72, 0.69, 0.75], "new": [0.74, 0.73, 0.75, 0.77]}
    (found,) = compared(arms_of(results), "base", ["new"])
    expected = stats.ttest_rel(results["new"], results["base"]).confidence_interval(0.95)
    assert (found.low, found.high) == (pytest.approx(expected.low), pytest.approx(expected.high))


def test_only_the_lower_bound_pays_for_choosing_among_configs() -> None:
    results = {"base": [0.5, 0.6, 0.7], "a": [0.6, 0.7, 0.8], "b": [0.7, 0.5, 0.6]}
    alone = compared(arms_of(results), "base", ["a"])[0]
    among = compared(arms_of(results), "base", ["a", "b"])[0]
    assert among.high == alone.high
    assert among.low < alone.low
    error = among.standard_error
    below = (among.difference - among.low) / error
    assert below == pytest.approx(lower_critical(2, 3))


def test_pairs_without_a_common_config_share_nothing_and_pay_a_little_more() -> None:
    results = {"base": [0.5, 0.6, 0.7], "other": [0.4, 0.7, 0.6], "a": [0.6, 0.7, 0.8], "b": [0.7, 0.5, 0.6]}
    arms = arms_of(results)
    one, own = differences(arms, {"a": "base", "b": "base"}), differences(arms, {"a": "base", "b": "other"})
    for found, correlation in ((one["a"], 0.5), (own["a"], 0.0), (own["b"], 0.0)):
        assert (found.family, found.df) == (2, 5)
        below = (found.difference - found.low) / found.standard_error
        assert below == pytest.approx(lower_critical(2, 5, correlation))
    assert one["a"].high == own["a"].high
    assert own["b"].difference == pytest.approx(np.mean(results["b"]) - np.mean(results["other"]))


def test_the_variance_lies_between_the_pair_s_own_and_that_of_the_comparator_s_pairs() -> None:
    results = {"base": [0.5, 0.6, 0.7], "quiet": [0.61, 0.7, 0.8], "other": [0.7, 0.5, 0.6], "third": [0.5, 0.7, 0.5]}
    found = compared(arms_of(results), "base", ["quiet"])[0]
    own, *others = (np.subtract(results[name], results["base"]).var(ddof=1) / 2 for name in ("quiet", "other", "third"))
    pooled = np.minimum([own, *others], math.exp(6 / 2) * np.median([own, *others])).mean()
    assert (found.variance, found.df) == ("pooled", 4 + 2 - 1)
    assert found.standard_error == pytest.approx(math.sqrt(2 / 3 * (own + pooled) / 2))


def test_a_noisy_config_hardly_widens_the_others() -> None:
    rng = np.random.default_rng(1)
    results = {name: list(rng.normal(0.8, 0.02, 4)) for name in ("base", "a", "b", "c")}
    alone = compared(arms_of(results), "base", ["a"])[0]
    noisy, noisier = (
        compared(arms_of(results | {"wild": [0.8 + times * 0.1, 0.8 - times * 0.4, 0.8, 0.8]}), "base", ["a"])[0]
        for times in (1, 10)
    )
    assert width(noisier) == width(noisy) < 1.6 * width(alone)


def test_pairs_without_spread_lend_nothing() -> None:
    results = {"base": [0.5, 0.6, 0.7], "a": [0.6, 0.9, 0.7], "equal": [0.6, 0.7, 0.8]}
    (found,) = compared(arms_of(results), "base", ["a"])
    assert (found.variance, found.df) == ("pair", 2)


@pytest.mark.parametrize(("seeds", "lent"), [(4, 6), (6, 10), (30, 10)])
def test_many_pairs_lend_no_more_than_two_nor_than_ten_degrees_of_freedom(seeds: int, lent: int) -> None:
    rng = np.random.default_rng(2)
    results = {str(number): list(rng.normal(0.8, 0.02, seeds)) for number in range(8)}
    (found,) = compared(arms_of(results), "0", ["1"])
    assert found.df == seeds - 1 + lent - 1


def test_a_collapsed_arm_does_not_widen_the_others() -> None:
    results = {"base": [0.5, 0.6, 0.7, 0.5], "a": [0.6, 0.7, 0.7, 0.6], "dead": [0.9, 0.0, 0.8, 0.0]}
    alone = compared(arms_of({name: results[name] for name in ("base", "a")}), "base", ["a"])[0]
    beside, dead = compared(arms_of(results, unsteady=("dead",)), "base", ["a", "dead"])
    assert beside.standard_error == pytest.approx(alone.standard_error)
    assert dead.df == 3
    assert dead.variance == "pair"


def test_only_seeds_that_both_have_count() -> None:
    nan = math.nan
    results = {"base": [0.5, 0.6, 0.7, 0.5, nan], "a": [0.6, nan, 0.8, 0.6, 0.9], "b": [0.5, 0.6, 0.6, 0.5, 0.4]}
    found = compared(arms_of(results), "base", ["a", "b"])
    assert [difference.num_seeds for difference in found] == [3, 4]
    assert found[0].difference == pytest.approx(0.1)


def test_the_spread_is_the_residual_variance_of_the_steady_configs() -> None:
    results = {"base": [0.5, 0.6, 0.7, 0.5], "a": [0.6, 0.9, 0.8, 0.6], "b": [0.5, 0.6, 0.4, 0.7]}
    found = Pairs(arms_of(results | {"dead": [0.0, 1, 0, 1]}, unsteady=("dead",))).spread()
    table = np.array([*results.values()])
    left = table - table.mean(axis=1, keepdims=True) - table.mean(axis=0) + table.mean()
    assert found == (pytest.approx(float((left**2).sum()) / 6), 6)


def test_the_spread_of_unequal_seeds_weighs_pairs_by_what_they_share() -> None:
    nan = math.nan
    results = {"base": [0.5, 0.6, 0.7, 0.5], "a": [0.6, nan, 0.8, 0.6], "b": [0.5, 0.6, 0.4, nan]}
    found = Pairs(arms_of(results)).spread()
    shared = [("base", "a", [0, 2, 3]), ("base", "b", [0, 1, 2]), ("a", "b", [0, 2])]
    squares = [
        np.var(np.subtract(results[one], results[other])[seeds]) * len(seeds) / 2 for one, other, seeds in shared
    ]
    assert found == (pytest.approx(sum(squares) / 5), 3)


def test_a_config_without_a_common_seed_is_left_out() -> None:
    results = {"base": [0.5, 0.6, math.nan, math.nan], "a": [math.nan, math.nan, 0.5, 0.6]}
    assert compared(arms_of(results), "base", ["a"]) == []


def test_fewer_than_three_seeds_give_no_interval() -> None:
    (found,) = compared(arms_of({"base": [0.5, 0.6], "a": [0.9, 0.9]}), "base", ["a"])
    assert found.difference == pytest.approx(0.35)
    assert (found.low, found.high, found.detectable) == (None, None, None)
    assert mean_interval([0.5, 0.6]).low is None


@pytest.mark.parametrize("unsteady", [(), ("base", "a")])
@pytest.mark.parametrize("base", [[0.1] * 4, [0.1, 0.3, 0.2, 0.7]])
def test_equal_differences_say_nothing_of_their_spread(unsteady: tuple[str, ...], base: list[float]) -> None:
    arms = arms_of({"base": base, "a": [value + 0.1 for value in base]}, unsteady)
    (found,) = compared(arms, "base", ["a"])
    assert found.difference == pytest.approx(0.1)
    assert (found.standard_error, found.low, found.high, found.detectable) == (None, None, None, None)
    assert Pairs(arms).spread() is None
    assert mean_interval([0.1] * 4).low is None


def test_the_mean_interval_is_students() -> None:
    found = mean_interval([0.7, 0.8, 0.75, 0.9])
    low, high = stats.t.interval(0.95, 3, loc=0.7875, scale=stats.sem([0.7, 0.8, 0.75, 0.9]))
    assert (found.low, found.high) == (pytest.approx(low), pytest.approx(high))


score = st.one_of(st.just(math.nan), st.sampled_from([0.0, 0.5, 1.0]), st.floats(0, 1))


@given(st.integers(1, 5).flatmap(lambda n: st.lists(st.lists(score, min_size=n, max_size=n), min_size=2, max_size=5)))
def test_any_results_give_finite_numbers_or_none(table: list[list[float]]) -> None:
    arms = arms_of({str(row): values for row, values in enumerate(table)}, unsteady=("3",))
    for found in compared(arms, "0", [arm.config_id for arm in arms]):
        numbers = (found.difference, found.standard_error, found.low, found.high, found.detectable)
        assert all(value is None or math.isfinite(value) for value in numbers)
        if found.low is not None:
            assert found.low <= found.difference <= found.high


# Problems


RATES = {
    "base": [[0.5, 0.3, 0.2, 0.4], [0.6, 0.1, 0.1, 0.3], [0.5, 0.2, 0.4, 0.5]],
    "new": [[0.9, 0.2, 0.5, 0.4], [0.7, 0.1, 0.6, 0.2], [0.8, 0.4, 0.7, 0.3]],
}


def counted(rates: dict[str, list[list[float]]]) -> list[Arm]:
    """Arms whose results are the means over problems; NaN for a problem without a judged sample."""
    arms: list[Arm] = []
    for name, rows in rates.items():
        by_seed = {
            seed: {Problem(f"p{place}", f"p{place}"): rate for place, rate in enumerate(row) if not math.isnan(rate)}
            for seed, row in enumerate(rows)
        }
        values = {seed: float(np.mean([*row.values()])) for seed, row in by_seed.items() if row}
        arms.append(Arm(name, values, rates=by_seed))
    return arms


def test_problems_widen_the_interval_of_the_seeds() -> None:
    arms = counted(RATES)
    (seeds_alone,) = compared([Arm(arm.config_id, arm.values) for arm in arms], "base", ["new"])
    (found,) = compared(arms, "base", ["new"])
    deltas = np.array(RATES["new"]) - np.array(RATES["base"])
    of_problems = problem_error([ProblemDeltas(deltas, np.array([*"abcd"]))])
    parts = ErrorParts(seeds_alone.standard_error, 2, math.sqrt(of_problems.variance), 3)
    assert found.low == pytest.approx(deltas.mean() - parts.upper_width())
    assert found.high == pytest.approx(deltas.mean() + parts.upper_width())
    assert found.standard_error == pytest.approx(parts.total)
    assert (found.num_problems, found.num_groups, found.problem_df, found.df) == (4, 4, 3, 2)
    assert found.seed_error == seeds_alone.standard_error
    assert found.difference == seeds_alone.difference
    assert width(found) > width(seeds_alone)
    assert (found.detectable or 0) > (seeds_alone.detectable or 0)
    assert (seeds_alone.num_problems, seeds_alone.problem_error) == (None, None)


def test_problems_that_chose_the_configs_push_the_lower_bound_down_alone() -> None:
    arms = counted(RATES)
    (apart,) = differences(arms, {"new": "base"}).values()
    (same,) = differences(arms, {"new": "base"}, problems_chose=9).values()
    assert same.high == apart.high
    assert (apart.family, same.family) == (1, 9)
    below = math.hypot(lower_critical(9, 2) * same.seed_error, lower_critical(9, 3) * same.problem_error)
    assert same.low == pytest.approx(same.difference - below)


def test_a_pair_with_a_trial_that_did_not_count_has_the_interval_of_its_seeds() -> None:
    arms = counted(RATES)
    missing = [arms[0], Arm("new", arms[1].values, rates={0: arms[1].rates[0], 2: arms[1].rates[2]})]
    (found,) = differences(missing, {"new": "base"}, problems_chose=9).values()
    assert (found.num_problems, found.standard_error, found.family) == (None, found.seed_error, 1)
    unpaired = [Arm("base", {0: 0.4, 1: 0.3, 2: 0.4}, rates=arms[0].rates), arms[1]]
    assert compared(unpaired, "base", ["new"])[0].num_problems == 4


def test_a_problem_that_one_run_lacks_is_left_out() -> None:
    holed = {"base": RATES["base"], "new": [[0.9, 0.2, math.nan, 0.4], *RATES["new"][1:]]}
    less = {name: [[*row[:2], row[3]] for row in rows] for name, rows in RATES.items()}
    (found,), (expected,) = compared(counted(holed), "base", ["new"]), compared(counted(less), "base", ["new"])
    assert found.num_problems == 3
    assert found.problem_error == pytest.approx(expected.problem_error)
