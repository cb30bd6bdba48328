"""The report reads metrics by the names that trainers write."""

from dataclasses import replace

from sweep_service.report.facts.report_inputs import CURVE_KEYS
from sweep_service.sweep.records import SweepState
from tests.unit.sweep_service.report.report_sweeps import sweep_inputs
from trainers.record.metrics import EVALUATION_METRICS, STEP_METRICS


def test_every_metric_that_a_report_reads_is_recorded() -> None:
    assert set(CURVE_KEYS) <= STEP_METRICS.keys() | EVALUATION_METRICS.keys()


def test_a_sweep_that_only_ends_well_with_its_report_keeps_the_digest() -> None:
    before = sweep_inputs(state=SweepState.FINALIZING)

    def after(**changes: object) -> str:
        return replace(before, sweep=before.sweep.model_copy(update={"ended_at": 1e9, **changes})).digest

    assert after(state=SweepState.SUCCEEDED) == before.digest
    assert len({before.digest, after(state=SweepState.FAILED), after(message="2 trials failed")}) == 3
