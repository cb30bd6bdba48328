"""How often claims about beta1 are wrong: bench/validate_claims.py in short, whole sweeps through `build()`."""

import numpy as np
import pytest

from bench.claim_worlds import worlds
from bench.validate_claims import (
    HEAD,
    ClaimSeen,
    ClaimTally,
    judge,
    line,
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
    assert max(found.false_holds, found.false_fails) <= 0.07


def test_an_effect_is_found_and_a_crossing_is_not_averaged_away() -> None:
    assert world_tally("falls faster", 5, 20).outcomes["HOLDS"] >= 0.7
    crossed = world_tally("even crossing", 5, 20)
    assert crossed.outcomes["DEPENDS"] >= 0.7
    assert crossed.outcomes["HOLDS"] + crossed.outcomes["FAILS"] == 0


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
