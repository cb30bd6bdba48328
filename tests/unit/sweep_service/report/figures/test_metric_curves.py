"""Metrics over training, in the order in which a section names them."""

from sweep_service.report import Report
from sweep_service.report.figures import config_styles
from sweep_service.report.figures.metric_curves import curve_figures
from tests.unit.sweep_service.report.report_figures import checked


def test_metrics_are_drawn_in_the_order_named_as_far_as_they_are_there(report: Report) -> None:
    draw = curve_figures("reward/mean", "absent", "eval/avg_at_k")
    assert list(checked(draw(report, config_styles(report)))) == ["reward/mean", "eval/avg_at_k"]


def test_no_band_of_a_share_rises_above_1(report: Report) -> None:
    for key, most in (("eval/pass_at_k", 1), ("eval/avg_at_k", 1), ("reward/mean", 1.5)):
        metric = report.curves_of(key)
        size = len(metric.configs[0].steps)
        wide = metric.configs[0].model_copy(update={"low": [0.5] * size, "high": [1.5] * size})
        changed = report.model_copy(update={"curves": [metric.model_copy(update={"configs": [wide]})]})
        (figure,) = curve_figures(key)(changed, config_styles(report))
        assert max(figure["data"][0]["y"]) == most
