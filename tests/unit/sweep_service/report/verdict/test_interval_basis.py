"""What the report says that its interval counts."""

import pytest

from sweep_service.report.build import build
from sweep_service.report.facts.report_inputs import ReportInputs
from sweep_service.report.model import Comparison
from sweep_service.report.verdict.interval_basis import interval_basis
from tests.unit.sweep_service.report.report_sweeps import sweep_inputs
from tests.unit.sweep_service.report.report_worlds import NAMES, counted


def compared(inputs: ReportInputs, num_groups: int | None) -> Comparison:
    comparison = build(inputs).verdict.comparison
    assert comparison is not None
    return comparison.model_copy(update={"num_groups": num_groups})


@pytest.mark.parametrize(
    ("groups", "said"),
    [(13, "20 validation problems, 13 of them independent, which"), (20, "20 validation problems, which")],
)
def test_problems_that_are_alike_are_told(groups: int, said: str) -> None:
    inputs = counted(sweep_inputs())
    assert said in interval_basis(compared(inputs, groups), inputs)


@pytest.mark.parametrize(
    ("names", "why"),
    [
        ([*NAMES[:15], NAMES[0]], ", because there are fewer than 16 independent ones; its"),
        (NAMES[:15], ", because there are fewer than 16; its"),
        ([*NAMES[:16], NAMES[0]], "which also chose the configs; its"),
    ],
)
def test_fewer_groups_than_halves_need_are_the_reason_why_all_problems_chose(names: list[str], why: str) -> None:
    inputs = counted(sweep_inputs(), tuple(names))
    assert why in interval_basis(compared(inputs, None), inputs)
