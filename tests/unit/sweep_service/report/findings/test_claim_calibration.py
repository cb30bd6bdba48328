"""How often claims about beta1 are wrong: bench/validate_claims.py in short, whole sweeps through `build()`."""

import numpy as np
import pytest

from bench.claim_worlds import worlds
from bench.validate_claims import (
    HEAD,
    OUTCOMES,
    ClaimSeen,
    ClaimTally,
    is_false,
    judge,
    line,
    of_seed,
    run_batch,
    simulate,
    table_line,
    tally,
)
from sweep_service.sweep.records import Stage

RUNS = 100


def world_tally(name: str, tune: int, runs: int = RUNS) -> ClaimTally:
    number = next(n for n, world in enumerate(worlds()) if (world.name, world.tune) == (name, tune))
    return tally(worlds()[number], run_batch(number, 0, runs))


@pytest.mark.hunt
@pytest.mark.parametrize("name", ["no effect, noisy configs", "no effect, but seeds differ in it"])
def test_intervals_cover_no_effect_and_nothing_is_claimed(name: str) -> None:
    found = world_tally(name, 3)
    assert found.coverage >= 0.88  # 100 runs have a standard error of 2 points at 95 %
    assert found.silent == 0
    assert max(found.false.values()) <= 0.07


def test_an_effect_is_found_and_a_crossing_is_not_averaged_away() -> None:
    assert world_tally("falls faster", 8, 20).outcomes["HOLDS"] >= 0.7
    crossed = world_tally("even crossing", 5, 20)
    assert crossed.outcomes["DEPENDS"] >= 0.2
    assert crossed.outcomes["HOLDS"] + crossed.outcomes["FAILS"] == 0


@pytest.mark.parametrize(
    ("true", "false"),
    [
        ([-1.0, -0.5, -1.0], {"FAILS", "DEPENDS"}),
        ([1.0], {"HOLDS", "DEPENDS"}),
        ([-1.0, 0.5, -1.0], {"HOLDS", "FAILS"}),
        ([-1.0, 0.0, -1.0], {"HOLDS", "FAILS", "DEPENDS"}),
    ],
)
def test_a_claim_is_held_against_every_value_of_beta2(true: list[float], false: set[str]) -> None:
    assert {outcome for outcome in OUTCOMES if is_false(outcome, true)} == false
    assert not is_false("UNDECIDED", true)


def test_skewed_seeds_lie_mostly_below_their_mean() -> None:
    world = next(world for world in worlds() if world.skewed)
    drawn = np.array([of_seed(world, np.random.default_rng(seed))[1] for seed in range(400)]) / world.seed_slopes
    assert (drawn < 0).mean() == pytest.approx(1 - np.exp(-1), abs=0.07)
    assert drawn.mean() == pytest.approx(0, abs=0.15)
    assert drawn.min() >= -1


def test_a_run_goes_through_selection_and_confirmation() -> None:
    world = next(world for world in worlds() if (world.name, world.tune, world.confirm) == ("no effect", 2, 4))
    report = simulate(world, np.random.default_rng(0))
    confirmed = {trial.config_id for trial in report.trials if trial.stage is Stage.CONFIRM}
    assert len(confirmed) == 4
    assert {"BETA1_ENTROPY_FALLS_FASTER", "BETA2_SLOWER"} <= {claim.code for claim in report.claims}
    assert judge(world, report).outcome == "UNDECIDED"


def test_the_truth_is_the_line_through_the_configs_at_one_beta2() -> None:
    world = next(world for world in worlds() if world.name == "uneven crossing")
    assert line(world, [(0.25, 0.5), (0.75, 0.5)]) == pytest.approx(-0.8)
    assert line(world, [(0.25, 0.5), (0.75, 0.5), (0.25, 1.0), (0.75, 1.0)]) == pytest.approx(-0.3)
    assert line(world, [(0.25, 0.5), (0.75, 1.0)]) == 0.0


def test_missed_targets_are_named() -> None:
    world = worlds()[0]
    wrong = ClaimSeen("HOLDS", false=True, silent=False, covered=False)
    right = ClaimSeen("UNDECIDED", false=False, silent=False, covered=True)
    assert tally(world, [right] * 1000).missed == []
    found = tally(world, [wrong] * 100 + [right] * 900)
    assert found.missed == ["coverage", "false claims"]
    assert table_line(found).count("|") == len(HEAD) + 1
