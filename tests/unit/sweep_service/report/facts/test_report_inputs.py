"""The report reads metrics by the names that trainers write, and its digest names whatever it reads."""

from dataclasses import replace
from typing import Any

import pytest

from sweep_service.report.facts.report_inputs import CURVE_KEYS
from sweep_service.sweep.records import AskedBefore, ProblemCounts, SweepState, ValidatedSweep
from tests.unit.sweep_service.report.report_benchmarks import measured_inputs
from tests.unit.sweep_service.report.report_sweeps import sweep_inputs
from trainers.record.metrics import EVALUATION_METRICS, STEP_METRICS


def test_every_metric_that_a_report_reads_is_recorded() -> None:
    assert set(CURVE_KEYS) <= STEP_METRICS.keys() | EVALUATION_METRICS.keys()


MEASURED = measured_inputs(problems=2)
COUNTS = ProblemCounts(trial_id="trl_0000", step=1, names=("a", "b"), judged=(2, 2), right=(1, 2))


@pytest.mark.parametrize(
    "changes",
    [
        {"trials": MEASURED.trials[:-1]},
        {"evaluations": MEASURED.evaluations[:-1]},
        {"benchmark_results": MEASURED.benchmark_results[:-1]},
        {"validated_before": (ValidatedSweep(sweep_id="swp_1", name="earlier", benchmark="aime24"),)},
        {"asked_before": (AskedBefore(sweep_id="swp_1", name="earlier", outcome="UNDECIDED"),)},
        {"problem_counts": (COUNTS,)},
        {"provenance": {"commit": "abc"}},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_a_report_of_other_rows_has_another_digest(changes: dict[str, Any]) -> None:
    assert replace(MEASURED, **changes).digest != MEASURED.digest


def test_the_order_of_problems_is_in_the_digest() -> None:
    other = COUNTS.model_copy(update={"names": ("b", "a")})
    assert replace(MEASURED, problem_counts=(COUNTS,)).digest != replace(MEASURED, problem_counts=(other,)).digest


def test_neither_a_new_lease_nor_an_end_that_is_well_changes_the_digest() -> None:
    before = sweep_inputs(state=SweepState.FINALIZING)

    def after(**changes: object) -> str:
        return replace(before, sweep=before.sweep.model_copy(update={"ended_at": 1e9, **changes})).digest

    assert after(epoch=7) == after(state=SweepState.SUCCEEDED) == before.digest
    assert len({before.digest, after(state=SweepState.FAILED), after(message="2 trials failed")}) == 3
