"""The report reads metrics by the names that trainers write."""

from sweep_service.report.facts.report_inputs import CURVE_KEYS
from trainers.record.metrics import EVALUATION_METRICS, STEP_METRICS


def test_every_metric_that_a_report_reads_is_recorded() -> None:
    assert set(CURVE_KEYS) <= STEP_METRICS.keys() | EVALUATION_METRICS.keys()
