"""The probability that further seeds show a difference, against simulations that draw every result."""

from dataclasses import replace

import numpy as np
import pytest

from bench.simulated_sweeps import Row, run_sweep
from bench.validate_purchases import Gaining, Kind, at_start
from bench.worlds import Lucky
from sweep_service.report.build import build
from sweep_service.report.model import Outcome
from sweep_service.report.statistics.critical_values import lower_critical
from sweep_service.report.statistics.further_seeds import ResultsSoFar
from tests.unit.sweep_service.report.report_sweeps import on_seeds, sweep_inputs

DRAWS = 400_000
KNOWN = 1_000_000  # degrees of freedom of a variance that is known
FEW = ResultsSoFar(variance=2e-4, df=6, family=2, seeds=4, difference=0.004, known_df=6)


def simulated(seen: ResultsSoFar, more: int, truth: float, confidence: float) -> float:
    """Return how often the lower bound lies above zero, of draws in which the first seeds show what is seen."""
    rng = np.random.default_rng(4)
    variances = seen.df * seen.variance / rng.chisquare(seen.df, DRAWS)
    lucks = rng.normal(0, seen.problem_error, DRAWS)
    if seen.seeds and seen.problem_error:
        firsts = truth + lucks + np.sqrt(2 * variances / seen.seeds) * rng.normal(size=DRAWS)
        alike = np.abs(firsts - seen.difference) < 0.0005
        variances, lucks = variances[alike], lucks[alike]
    draws = len(lucks)
    df = seen.known_df + seen.df_per_seed * (more if seen.known_df else seen.seeds + more - 1)
    fresh = variances * rng.chisquare(df - seen.known_df, draws)
    shown = (seen.known_df * seen.variance + fresh) / df
    new = truth + lucks + np.sqrt(2 * variances / more) * rng.normal(size=draws)
    mean = (seen.seeds * seen.difference + more * new) / (seen.seeds + more)
    of_seeds = lower_critical(seen.family, df, confidence=confidence) * np.sqrt(2 * shown / (seen.seeds + more))
    of_problems = lower_critical(seen.family, seen.problem_df, confidence=confidence) * seen.problem_error
    return float((mean > np.hypot(of_seeds, of_problems)).mean())


@pytest.mark.parametrize(
    "seen",
    [
        FEW,
        replace(FEW, difference=-0.02),
        replace(FEW, df=40, known_df=40, family=1),
        replace(FEW, seeds=0, difference=0.0, known_df=0, df_per_seed=3),
        replace(FEW, seeds=2, known_df=0),
        replace(FEW, seeds=0, difference=0.0, known_df=0, problem_error=0.006, problem_df=99),
        replace(FEW, df=KNOWN, known_df=6, problem_error=0.006, problem_df=99),
        replace(FEW, df=KNOWN, known_df=6, problem_error=0.004, problem_df=249, difference=0.015),
    ],
)
@pytest.mark.parametrize(("more", "confidence"), [(3, 0.975), (12, 0.95)])
def test_the_probability_is_how_often_it_happens(seen: ResultsSoFar, more: int, confidence: float) -> None:
    assert seen.chance(more, 0.02, confidence) == pytest.approx(simulated(seen, more, 0.02, confidence), abs=0.01)


def test_the_range_is_of_an_interval_of_variances() -> None:
    low, high = FEW.chance_range(12, 0.02)
    assert low < FEW.chance(12, 0.02) < high
    small, large = (replace(FEW, df=KNOWN, variance=6 * FEW.variance / quantile) for quantile in (10.6446, 2.20413))
    assert FEW.chance(12, 0.02) > 0.5
    assert high == pytest.approx(simulated_with(small), abs=0.01)
    assert low == pytest.approx(simulated_with(large), abs=0.01)


def simulated_with(known: ResultsSoFar) -> float:
    """Return the probability with a variance that is known, while the first seeds showed that of `FEW`."""
    rng = np.random.default_rng(5)
    new = 0.02 + np.sqrt(2 * known.variance / 12) * rng.normal(size=DRAWS)
    shown = (6 * FEW.variance + known.variance * rng.chisquare(12, DRAWS)) / 18
    return float(((4 * 0.004 + 12 * new) / 16 > lower_critical(2, 18) * np.sqrt(2 * shown / 16)).mean())


def test_a_tie_says_how_many_more_seeds_find_a_relevant_difference() -> None:
    report = build(sweep_inputs({"objective": {"relevant": 0.015}}))
    found, purchase = report.verdict.comparison, report.verdict.next
    assert report.verdict.outcome is Outcome.UNDECIDED
    assert purchase.config_ids == [found.config_id, found.comparator_id]
    variance = found.seed_error**2 * found.num_seeds / 2
    seen = ResultsSoFar(variance, found.df, 2, found.num_seeds, found.difference, found.df)
    assert purchase.power >= 0.8
    assert purchase.power == pytest.approx(simulated(seen, purchase.more_seeds, 0.015, 0.975), abs=0.01)
    assert simulated(seen, purchase.more_seeds - 1, 0.015, 0.975) < 0.81
    low, high = seen.chance_range(purchase.more_seeds, 0.015, 0.975)
    assert purchase.power_range == pytest.approx([low, high])
    assert low < purchase.power < high


def test_a_stricter_look_makes_every_probability_smaller() -> None:
    assert FEW.chance(12, 0.02, 0.975) < FEW.chance(12, 0.02)
    for strict, plain in zip(FEW.chance_range(12, 0.02, 0.975), FEW.chance_range(12, 0.02), strict=True):
        assert strict < plain


def test_a_confirm_stage_is_promised_by_the_tune_seeds_alone() -> None:
    report = build(sweep_inputs(on_seeds((0, 1, 2), confirm=())))
    purchase = report.verdict.next
    rows = {row.id: row.tune for row in report.configs if row.id in purchase.config_ids}
    values = [{seed.seed: seed.value for seed in tune.seeds} for tune in rows.values() if tune]
    table_AS = np.array([[own[seed] for seed in (0, 1, 2)] for own in values])
    centred_AS = table_AS - table_AS.mean(axis=0) - table_AS.mean(axis=1, keepdims=True) + table_AS.mean()
    variance = float((centred_AS**2).sum()) / (2 * (len(values) - 1))
    seen = ResultsSoFar(variance, 2 * (len(values) - 1), family=2, df_per_seed=len(values) - 1)
    assert len(values) == 4
    assert purchase.power == pytest.approx(simulated(seen, purchase.more_seeds, 0.02, 0.95), abs=0.015)
    assert purchase.power >= 0.8


def test_the_problems_part_is_not_taken_for_known() -> None:
    known = replace(FEW, problem_error=0.004, problem_df=KNOWN)
    unsure = replace(FEW, problem_error=0.004, problem_df=49, problem_noise=4e-5)
    looks_like_none = replace(FEW, problem_error=0.0, problem_df=49, problem_noise=4e-5)
    assert unsure.chance(60, 0.02) < known.chance(60, 0.02) < FEW.chance(60, 0.02)
    assert looks_like_none.chance(60, 0.02) < FEW.chance(60, 0.02)


@pytest.mark.parametrize("first", [0, 3])
def test_advice_counts_the_problems_that_further_seeds_answer_again(first: int) -> None:
    """With 100 problems of such luck no number of seeds shows 0.02, so hardly any sweep is advised to buy them."""
    kind = Kind("", Gaining(Lucky(100, 0.1)), first)
    rng = np.random.default_rng(3)
    row = Row("", kind.world, 3, differ=True)
    for _ in range(2):
        advice = build(at_start(kind, run_sweep(row, rng)[0])).verdict.next
        assert advice.power < 0.8
        assert "evaluate on more problems" in advice.text
        chance = "hardly ever" if advice.power < 0.01 else f"with only {100 * advice.power:.0f} % probability, and "
        assert chance in advice.text
        assert "and 1000 with" not in advice.text  # a number after which more hardly help
        assert advice.more_seeds == 0
