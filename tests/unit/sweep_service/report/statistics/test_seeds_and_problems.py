import math

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from sweep_service.report.statistics.critical_values import lower_critical, student_critical
from sweep_service.report.statistics.differences import Arm, Difference, Pairs, Problem
from sweep_service.report.statistics.seeds_and_problems import ErrorParts, ProblemDeltas, problem_error

Floats = npt.NDArray[np.float64]

TABLE = np.array([[0.9, 0.2, 0.5, 0.4], [0.7, 0.1, 0.6, 0.2], [0.8, 0.4, 0.7, 0.3]])
"""Shares of right samples of 4 problems on 3 seeds."""
OTHER = np.array([[0.5, 0.3, 0.2, 0.4], [0.6, 0.1, 0.1, 0.3], [0.5, 0.2, 0.4, 0.5]])


def arm(name: str, *benchmarks: Floats, groups: str = "") -> Arm:
    """Return a config with these rates; a problem's group is one letter, or itself where there are none."""
    rates = {
        seed: {
            Problem(str(problem), groups[problem] if groups else str(problem), str(number)): float(
                values[seed, problem]
            )
            for number, values in enumerate(benchmarks)
            for problem in range(values.shape[1])
            if not math.isnan(values[seed, problem])
        }
        for seed in range(len(benchmarks[0]))
        if all(not np.isnan(values[seed]).all() for values in benchmarks)
    }
    means = {seed: np.mean([np.nanmean(values[seed]) for values in benchmarks]) for seed in rates}
    return Arm(name, means, rates=rates)


def compare(*benchmarks: Floats, groups: str = "") -> Difference:
    """Compare with a config that is never right, so that the differences are these values."""
    arms = [arm("new", *benchmarks, groups=groups), arm("old", *(0 * values for values in benchmarks), groups=groups)]
    return Pairs(arms).difference("new", "old")


def test_both_parts_agree_with_the_table_of_an_analysis_of_variance() -> None:
    """The mean squares are summed up cell by cell, and the parts follow from their expectations."""
    d = TABLE - OTHER
    seeds, problems = d.shape
    grand = sum(d.flat) / d.size
    of_seeds = sum(problems * (sum(row) / problems - grand) ** 2 for row in d) / (seeds - 1)
    of_problems = sum(seeds * (sum(column) / seeds - grand) ** 2 for column in d.T) / (problems - 1)
    of_rest = sum(
        (d[s, p] - sum(d[s]) / problems - sum(d[:, p]) / seeds + grand) ** 2
        for s in range(seeds)
        for p in range(problems)
    ) / ((seeds - 1) * (problems - 1))
    found = Pairs([arm("new", TABLE), arm("old", OTHER)]).difference("new", "old")
    assert found.difference == pytest.approx(grand)
    assert found.parts.seeds**2 == pytest.approx(of_seeds / d.size)
    assert found.parts.problems**2 == pytest.approx((of_problems - of_rest) / d.size)
    assert (found.num_seeds, found.num_problems, found.parts.seed_df) == (3, 4, 2)
    assert found.parts.problem_df == pytest.approx(3)
    assert found.parts.total == pytest.approx(math.sqrt((of_seeds + of_problems - of_rest) / d.size))


def test_where_one_is_all_alike_students_interval_over_the_other_is_left() -> None:
    varied = np.array([0.3, 0.5, 0.1, 0.7, 0.2])
    expected = stats.ttest_1samp(varied, 0).confidence_interval(0.95)
    over_seeds = compare(np.repeat(varied[:, None], 4, axis=1))
    bounds = over_seeds.parts.interval(over_seeds.difference, 1, 0.5, 0.5, 0.95)
    assert bounds == pytest.approx((expected.low, expected.high))
    over_problems = problem_error([ProblemDeltas(np.repeat(varied[None], 4, axis=0), np.array([*"abcde"]))])
    half = ErrorParts(0.0, 3, math.sqrt(over_problems.variance), over_problems.df).upper_width()
    assert (varied.mean() - half, varied.mean() + half) == pytest.approx((expected.low, expected.high))


def test_a_missing_cell_leaves_its_problem_out_and_a_missing_row_its_seed() -> None:
    holed = TABLE.copy()
    holed[1, 2] = math.nan
    assert compare(holed).problem_error == compare(np.delete(TABLE, 2, axis=1)).problem_error
    gone = np.vstack([TABLE, np.full(4, math.nan)])
    assert compare(gone, np.vstack([OTHER, OTHER[:1]])) == compare(TABLE, OTHER)
    scattered = np.where(np.eye(3, 4, dtype=bool) | (np.arange(4) == 3), math.nan, TABLE)
    assert compare(scattered).num_problems is None


def test_what_the_data_do_not_determine_is_none() -> None:
    assert problem_error([ProblemDeltas(TABLE[:1], np.array([*"abcd"]))]) is None
    assert problem_error([ProblemDeltas(TABLE, np.array([*"aaaa"]))]) is None
    assert compare(TABLE[:, :1]).num_problems is None
    assert compare(np.full((3, 4), 0.5)).parts is None


def test_problems_of_one_group_are_as_good_as_one_problem() -> None:
    once, twice = compare(TABLE), compare(np.repeat(TABLE, 2, axis=1), groups="aabbccdd")
    assert twice.problem_error == pytest.approx(once.problem_error)
    assert (twice.problem_df, twice.num_groups, twice.num_problems) == (once.problem_df, 4, 8)


def test_a_group_that_weighs_more_adds_variance_and_takes_degrees_of_freedom() -> None:
    """The formulas are held against the quadratic form that they sum up, and that against draws."""
    weights = np.array([0.5, 0.2, 0.2, 0.1])
    share = weights**2 / (1 - 2 * weights + weights @ weights)
    centring = np.eye(4) - weights  # row g: one group's distance from the mean
    form = centring.T @ np.diag(share) @ centring
    table = np.repeat(TABLE[:, :4], [5, 2, 2, 1], axis=1)
    exact = np.repeat(table[:1], 3, axis=0)  # seeds alike, so that nothing is subtracted
    found = problem_error([ProblemDeltas(exact, np.array([*"aaaaabbccd"]))])
    assert found.variance == pytest.approx(TABLE[0] @ form @ TABLE[0])
    assert found.df == int(np.trace(form) ** 2 / np.trace(form @ form))
    draws = np.random.default_rng(3).normal(size=(20_000, 4))
    assert np.mean(np.einsum("ng,gh,nh->n", draws, form, draws)) == pytest.approx(weights @ weights, rel=0.03)


def test_benchmarks_weigh_the_same() -> None:
    assert compare(TABLE, OTHER[:, :2]).difference == pytest.approx((TABLE.mean() + OTHER[:, :2].mean()) / 2)
    assert compare(TABLE, TABLE).problem_error == pytest.approx(compare(TABLE).problem_error / math.sqrt(2))
    assert compare(TABLE, TABLE).parts.seeds == pytest.approx(compare(TABLE).parts.seeds)


def test_the_error_of_one_part_alone_has_its_degrees_of_freedom() -> None:
    assert ErrorParts(0.3, 6).df == 6
    assert ErrorParts(0.0, 6, 0.3, 23).df == 23
    assert 6 < ErrorParts(0.3, 6, 0.3, 23).df == int(4 / (1 / 6 + 1 / 23)) < 23
    assert ErrorParts(0.3, 6, 0.4, 23).total == pytest.approx(0.5)


def test_no_part_makes_an_interval_narrower() -> None:
    alone, both = ErrorParts(0.3, 2), ErrorParts(0.3, 2, 0.1, 200)
    assert both.lower_width(2) > alone.lower_width(2) == pytest.approx(lower_critical(2, 2) * 0.3)
    assert both.upper_width() > alone.upper_width() == pytest.approx(student_critical(2) * 0.3)
    assert both.lower_width(9) > both.lower_width(2)


def drawn(random: np.random.Generator, seeds: int, problems: int, sds: tuple[float, float, float]) -> Floats:
    """Draw differences around zero; the standard deviations are those of seeds, problems and the rest."""
    of_seed, of_problem, of_rest = sds
    return (
        random.normal(0, of_seed, (seeds, 1))
        + random.normal(0, of_problem, (1, problems))
        + random.normal(0, of_rest, (seeds, problems))
    )


def holds_zero(result: Difference) -> bool:
    return result.parts is not None and abs(result.difference) <= result.parts.upper_width()


@pytest.mark.parametrize("seeds", [3, 6])
@pytest.mark.parametrize("problems", [8, 100])
@pytest.mark.parametrize(
    "sds", [(0.02, 0.1, 0.15), (0.05, 0.02, 0.2), (0.0, 0.1, 0.1), (0.05, 0.0, 0.1)], ids=lambda sds: f"sds {sds}"
)
def test_intervals_contain_the_truth(seeds: int, problems: int, sds: tuple[float, float, float]) -> None:
    random = np.random.default_rng(5)
    assert np.mean([holds_zero(compare(drawn(random, seeds, problems, sds))) for _ in range(1500)]) > 0.93


def test_a_seed_that_is_lucky_on_every_benchmark_counts_once() -> None:
    """Seed effects that four benchmarks share do not average out, as they would if each had seeds of its own."""
    random = np.random.default_rng(6)
    covered = []
    for _ in range(1500):
        shared = random.normal(0, 0.05, (4, 1))
        benchmarks = (shared + drawn(random, 4, problems, (0.0, 0.05, 0.1)) for problems in (15, 30, 30, 60))
        covered.append(holds_zero(compare(*benchmarks)))
    assert 0.93 < np.mean(covered) < 0.985
