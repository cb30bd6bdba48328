"""Seeds that are bought after a report: later looks are stricter, and the advice says what they will find, and how."""

from dataclasses import replace

import numpy as np
import pytest

from bench.simulated_sweeps import Row, run_sweep
from bench.validate_batches import run_part
from bench.validate_looks import LOOKS, WORLDS, at_look, first_better, seen_of_values, with_values
from bench.worlds import Drawn
from sweep_service.report.build import build
from sweep_service.report.statistics.critical_values import confidence_of, lower_critical, student_critical
from sweep_service.report.verdict.interval_basis import interval_basis
from sweep_service.sweep.records import Stage
from tests.unit.sweep_service.report.report_sweeps import sweep_inputs


def test_all_looks_together_err_at_most_twice_as_often_as_the_first() -> None:
    errors = [1 - confidence_of(look) for look in range(1, 40)]
    assert errors[:3] == pytest.approx([0.05, 0.025, 0.0125])
    assert sum(errors) / 2 <= 0.05 + 1e-11  # one-sided
    assert lower_critical(1, 6, confidence=0.975) == pytest.approx(2.9687, abs=1e-4)  # t tables: 98.75 %, 6 df


@pytest.mark.parametrize("df", [1, 2, 5, 30])
def test_every_look_has_a_finite_bound_no_larger_than_bonferronis(df: int) -> None:
    bounds = [lower_critical(20, df, confidence=confidence_of(look)) for look in range(1, 60)]
    bonferroni = [student_critical(df, 1 - (1 - confidence_of(look)) / 20) for look in range(1, 60)]
    assert all(low <= high * (1 + 1e-9) for low, high in zip(bounds, bonferroni, strict=True))
    assert bounds[:20] == sorted(bounds[:20])
    assert np.isfinite(bounds).all()


@pytest.mark.parametrize("looks", [7, 60])
def test_a_sweep_of_many_looks_has_a_report(looks: int) -> None:
    report = build(replace(sweep_inputs(), looks=looks))
    assert report.verdict.comparison.low < report.verdict.comparison.difference
    text = interval_basis(report.verdict.comparison, replace(sweep_inputs(), looks=looks))
    assert ("over 99.99 % instead of 95 %" if looks == 60 else "99.92 % instead of 95 %") in text


def test_the_advice_promises_what_the_next_look_can_keep() -> None:
    inputs = sweep_inputs({"objective": {"relevant": 0.015}})
    first, second = (build(replace(inputs, looks=number)).verdict.next for number in (1, 2))
    assert second.more_seeds > first.more_seeds  # a third look is stricter than a second


def test_a_grid_that_grows_keeps_what_was_confirmed_before() -> None:
    inputs, _ = run_sweep(Row("", Drawn(0, points=16), 4, differ=False, top_k=16), np.random.default_rng(5))
    early, late = (with_values(inputs, look, more=4) for look in (0, 3))
    assert [len([one for one in view.configs if one.number >= 2]) for view in (early, late)] == [4, 16]
    confirmed = [{one.config_id for one in view.trials if one.stage is Stage.CONFIRM} for view in (early, late)]
    assert (len(confirmed[0]), early.looks, late.looks) == (4, 1, 4)
    assert confirmed[0] <= confirmed[1]
    assert build(late).verdict.comparison.confidence == pytest.approx(confidence_of(4))


@pytest.mark.hunt
def test_grids_that_grow_and_batches_that_move_configs_are_rarely_wrong() -> None:
    seen = seen_of_values(4, 1, 25)
    assert all(sum(one[kind] is not None for one in seen) <= 5 for kind in (0, 2))
    words = [one for one, _ in run_part(1.0, 1, 50) if one is not None]
    assert sum(one.false for one in words) <= 8


@pytest.mark.hunt
def test_looking_again_is_rarely_wrong() -> None:
    rng = np.random.default_rng(11)
    row = Row("", WORLDS["Gaussian"], LOOKS[3], differ=False)
    sweeps = [run_sweep(row, rng)[0] for _ in range(60)]
    assert len(at_look(sweeps[0], 1, aware=True).trials) < len(sweeps[0].trials)
    assert sum(first_better(inputs, aware=True) is not None for inputs in sweeps) / 60 <= 0.15
