"""Seeds that are bought after a report: later looks are stricter, and the advice says what they will find, and how."""

from dataclasses import replace

import numpy as np
import pytest

from bench.validate_looks import LOOKS, WORLDS, at_look, first_better
from bench.validate_report import Row, run_sweep
from sweep_service.report.build import build
from sweep_service.report.statistics.critical_values import confidence_of, lower_critical
from tests.unit.sweep_service.report.report_sweeps import sweep_inputs


def test_all_looks_together_err_at_most_twice_as_often_as_the_first() -> None:
    errors = [1 - confidence_of(look) for look in range(1, 40)]
    assert errors[:3] == pytest.approx([0.05, 0.025, 0.0125])
    assert sum(errors) / 2 <= 0.05  # one-sided
    assert lower_critical(1, 6, confidence=0.975) == pytest.approx(2.9687, abs=1e-4)  # t tables: 98.75 %, 6 df


def test_the_advice_promises_what_the_next_look_can_keep() -> None:
    inputs = sweep_inputs({"objective": {"relevant": 0.015}})
    first, second = (build(replace(inputs, looks=number)).verdict.next for number in (1, 2))
    assert second.more_seeds > first.more_seeds  # a third look is stricter than a second


@pytest.mark.hunt
def test_looking_again_is_rarely_wrong() -> None:
    rng = np.random.default_rng(11)
    row = Row("", WORLDS["Gaussian"], LOOKS[3], differ=False)
    sweeps = [run_sweep(row, rng)[0] for _ in range(60)]
    assert len(at_look(sweeps[0], 1, aware=True).trials) < len(sweeps[0].trials)
    assert sum(first_better(inputs, aware=True) is not None for inputs in sweeps) / 60 <= 0.15
