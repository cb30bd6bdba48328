"""Sweeps whose runs are ruined or crash, drawn from known truths: words of the verdict are rarely false."""

from dataclasses import replace

import pytest

from bench.simulated_sweeps import Row
from bench.truths import Truth, is_false
from bench.validate_words import rows, run_batch, share
from sweep_service.report.model import Outcome
from tests.unit.sweep_service.report.verdict.test_calibration import RUNS


@pytest.mark.parametrize(
    ("config", "comparator", "false"),
    [
        # ahead in sound runs, behind on average
        (Truth(0.66, 0.2), Truth(0.6), {Outcome.BETTER, Outcome.EQUIVALENT, Outcome.BEHIND, Outcome.ALIKE}),
        (Truth(0.66, 0.2, 0.36), Truth(0.6), {Outcome.BETTER, Outcome.WORSE, Outcome.BEHIND, Outcome.ALIKE}),
        (Truth(0.6), Truth(0.61, 0.1), {Outcome.WORSE, Outcome.EQUIVALENT, Outcome.AHEAD}),
        (Truth(0.6), Truth(0.6), {Outcome.BETTER, Outcome.WORSE, Outcome.AHEAD, Outcome.BEHIND}),
    ],
)
def test_a_word_is_held_against_its_own_truth(config: Truth, comparator: Truth, false: set[Outcome]) -> None:
    here = {Outcome.AHEAD: Outcome.AHEAD_HERE, Outcome.BEHIND: Outcome.BEHIND_HERE, Outcome.ALIKE: Outcome.ALIKE_HERE}
    of_sound = {here[outcome] for outcome in false if outcome in here}  # sound runs on the problems of the world
    assert {outcome for outcome in Outcome if is_false(outcome, config, comparator, 0.02)} == false | of_sound


@pytest.mark.hunt
@pytest.mark.parametrize("row", [row for row in rows() if row.seeds in (4, 8)][::2], ids=lambda row: row.name)
def test_words_are_rarely_false(row: Row) -> None:
    seen = run_batch(row, 0, 0, RUNS)
    assert share([one.false for one in seen]) <= 0.10
    assert share([one.covered for one in seen if one.covered is not None]) >= 0.85
    assert share([one.average_covered for one in seen if one.average_covered is not None]) >= 0.9
    assert share([one.bound_holds for one in seen]) >= 0.9


def test_a_config_that_is_never_ruined_is_found() -> None:
    row = next(row for row in rows() if row.name == "0.06 better, never ruined")
    assert share([one.outcome is Outcome.AHEAD for one in run_batch(replace(row, seeds=8), 0, 0, 20)]) >= 0.9
