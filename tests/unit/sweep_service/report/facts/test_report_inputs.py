"""The report reads metrics by the names that trainers write."""

from sweep_service.report.facts.report_inputs import CURVE_KEYS, RATIO_BINS
from trainers.record.metrics import EVALUATION_METRICS, STEP_METRICS
from trainers.record.metrics import RATIO_BINS as RECORDED_BINS


def test_every_metric_that_a_report_reads_is_recorded() -> None:
    assert set(CURVE_KEYS) <= STEP_METRICS.keys() | EVALUATION_METRICS.keys()


def test_the_bins_of_the_ratio_are_the_trainers() -> None:
    assert tuple(RECORDED_BINS) == RATIO_BINS
