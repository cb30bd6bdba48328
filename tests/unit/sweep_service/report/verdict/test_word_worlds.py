"""The worlds behind the words of the verdict: what they draw is what their truth says."""

from dataclasses import replace

import numpy as np
import pytest

from bench.simulated_sweeps import Row
from bench.truths import Truth
from bench.validate_power import Found, find, line
from bench.validate_purchases import Gaining
from bench.validate_words import run_batch
from bench.word_worlds import BEYOND, KnownWorld, Law, LowShares, MatchedRuin, Mixed, Mode, further_rows, law
from bench.worlds import Arms, Drawn
from sweep_service.report.model import Outcome

SEEDS = 4000
MIXED = {row.name: row.world for row in further_rows() if isinstance(row.world, Mixed)}


def drawn(world: KnownWorld, place: int, seeds: int = SEEDS) -> tuple[np.ndarray, Arms]:
    arms = world.deal(np.random.default_rng(0))
    return arms.train(np.random.default_rng(1), [place, 9], seeds).values_AS[0], arms


def test_the_truth_of_a_law_is_apart_for_sound_and_ruined_runs() -> None:
    late = Law((Mode(0.1, 0.3, 0.45, ruined=True), Mode(0.1, 0.45, 0.6), Mode(0.8, 0.6, 0.6)))
    assert late.truth == pytest.approx(Truth((0.0525 + 0.48) / 0.9, 0.1, 0.375))
    assert law(0.6).truth == Truth(0.6)


@pytest.mark.parametrize("name", MIXED)
def test_runs_have_the_mean_that_the_truth_says(name: str) -> None:
    world = replace(MIXED[name], confirm_only=False)
    for place in (0, 8, 9, 10):
        values, arms = drawn(world, place)
        truth = world.truth(arms, place)
        assert values.mean() == pytest.approx(truth.average, abs=0.02)
        below = (values < (truth.sound + truth.ruin) / 2).mean() if truth.ruin < 0.3 else truth.rate
        assert below == pytest.approx(truth.rate, abs=0.03)


def test_ruin_by_seed_hits_all_configs_at_once_and_late_ruin_the_confirm_stage_alone() -> None:
    world = Mixed(law(0.6, 0.5), law(0.6, 0.5), by_seed=True)
    arms = world.deal(np.random.default_rng(0))
    ruined_AS = world.train(arms, np.random.default_rng(1), np.arange(11), 100).values_AS < 0.3
    assert (ruined_AS == ruined_AS[0]).all()
    assert 0.3 < ruined_AS.mean() < 0.7
    late = replace(world, by_seed=False, confirm_only=True)
    assert (late.train(arms, np.random.default_rng(1), np.arange(11), 2).values_AS > 0.3).all()
    assert (late.train(arms, np.random.default_rng(1), np.arange(11), 4).values_AS < 0.3).any()


def test_points_of_a_matched_space_collapse_and_its_baselines_do_not() -> None:
    world = MatchedRuin(0.0, collapse=0.5)
    arms = world.deal(np.random.default_rng(0))
    results = world.train(arms, np.random.default_rng(1), np.arange(len(arms.means_A)), 50)
    assert (results.values_AS[:9] == 0).mean() == pytest.approx(0.5, abs=0.1)
    assert (results.values_AS[9:] > 0).all()
    assert (world.truth(arms, 0).rate, world.truth(arms, 11).rate) == (0.5, 0.0)


def test_low_shares_are_as_low_as_they_say() -> None:
    values, arms = drawn(LowShares(16, 0.0, samples=1), 0, seeds=400)
    assert values.mean() == pytest.approx(0.125, abs=0.02)
    assert not LowShares(16, 0.0).ruins
    assert LowShares(16, 0.0).truth(arms, 3).sound == 0.125


def test_worlds_beyond_a_target_are_those_of_the_table() -> None:
    assert set(BEYOND) < {row.name for row in further_rows()}


@pytest.mark.parametrize("row", {type(row.world): row for row in further_rows()}.values(), ids=lambda row: row.name)
def test_every_kind_of_world_goes_through_a_report(row: Row) -> None:
    seen = run_batch(row, 0, 0, 2)
    assert seen
    assert all((one.called_ruined is None) == row.world.ruins for one in seen)


def test_power_is_held_against_the_oracle() -> None:
    row = Row("", Gaining(Drawn(0, unit=0.015), 0.2), 4, differ=True)
    found = find(row, np.random.default_rng(0))
    assert found.outcome.sign == 1
    assert found.oracle
    text, missed = line(1, 4, [found] * 10)
    assert text.startswith(f"| 0.02 | 4 | {found.half_width:.4f} | ")
    assert not missed
    blind = [replace(found, outcome=Outcome.UNDECIDED, half_width=2 * found.oracle_half_width)] * 10
    assert line(1, 4, blind)[1] == ["width", "power"]
    assert Found.__doc__
