"""How often the report is wrong: the short form of bench/validate_report.py, whole sweeps through `build()`."""

import json

import numpy as np
import pytest

from bench.validate_report import (
    RECORDED,
    Arms,
    Drawn,
    Row,
    Seen,
    Tally,
    judge,
    line,
    run_batch,
    simulate,
    tally,
    target_rows,
)
from sweep_service.sweep.records import Stage, TrialState

RUNS = 120
ROWS = {f"{row.name}, {'differences' if row.differ else 'none'}": row for row in target_rows() if row.seeds == 4}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.long) if "recorded" in name else name for name in ROWS]
)
def test_better_is_rarely_false_and_intervals_cover(name: str) -> None:
    found = tally(ROWS[name], run_batch(ROWS[name], 0, 0, RUNS))
    # 120 runs have a standard error of 2 points at 95 %
    assert found.coverage >= 0.88
    assert found.false_better <= 0.10
    assert found.ties >= 0.88
    if ROWS[name].differ:
        assert found.power is not None
        assert found.power >= 0.65
        assert found.regret is not None
        assert found.regret <= 1.4


def test_a_run_goes_through_selection_and_confirmation() -> None:
    row = ROWS["recorded, differences"]
    report, arms = simulate(row, np.random.default_rng(1))
    confirmed = {trial.config_id for trial in report.trials if trial.stage is Stage.CONFIRM}
    assert len(arms.means_A) == len(report.configs) == 17
    assert len(confirmed) == row.top_k + 2
    assert report.best is not None
    assert report.best.config_id in confirmed
    assert len(report.trials) == 2 * 17 + row.seeds * 4
    assert {trial.state for trial in report.trials} == {TrialState.SUCCEEDED, TrialState.FAILED}


def test_collapses_of_the_recorded_world_reach_the_report() -> None:
    reports = [simulate(ROWS["recorded, differences"], np.random.default_rng(seed))[0] for seed in range(3)]
    assert sum(row.reward_collapsed for report in reports for row in report.configs) > 10


def test_the_truth_of_the_recorded_world_is_the_recorded_mean() -> None:
    arms = json.loads(RECORDED.read_text())["arms"]
    means = sorted(float(np.mean([np.mean(run["evaluations"]) for run in arm["runs"]])) for arm in arms)
    world = ROWS["recorded, differences"].world
    rng = np.random.default_rng(0)
    dealt = world.deal(rng)
    assert all(np.isclose(mean, means).any() for mean in dealt.means_A)
    found = dealt.train(rng, range(17), 4000).values_AS
    assert np.nanmean(found, axis=1) == pytest.approx(dealt.means_A, abs=0.02)


def test_a_wrong_report_would_be_noticed() -> None:
    row = Row("shifted", Drawn(0), 4, differ=False)
    report, arms = simulate(row, np.random.default_rng(0))
    shifted = Arms(arms.means_A + np.arange(11) * -100.0, arms.sds_A, arms.prior, arms.source, arms.numbers_A)
    assert judge(row, report, shifted).covered is False


def test_missed_targets_are_named() -> None:
    row = Row("world", Drawn(2), 4, differ=True)
    good = Seen(True, False, True, 1.0, True, True, 1.0, 1.0)
    bad = Seen(True, True, False, 1.0, True, True, 2.0, 1.0)
    assert tally(row, [good] * 95 + [Seen(False, False, False, 1.0, True, True, 1.0, 1.0)] * 5).missed == []
    assert tally(row, [bad] * 100).missed == ["coverage", "false BETTER", "regret"]
    weak = tally(row, [Seen(False, False, True, 1.0, True, True, 1.0, 1.0)] * 100)
    assert isinstance(weak, Tally)
    assert "power" in weak.missed
    assert line(weak).count("|") == 11
