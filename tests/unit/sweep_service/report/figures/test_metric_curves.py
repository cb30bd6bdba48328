"""Metrics over training, in the order in which a section names them."""

import pytest

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


@pytest.mark.parametrize(
    ("means", "from_zero"),
    [([1.74, 1.78], False), ([1.75, 1.75], False), ([0.6, 0.8], False), ([0.4, 0.8], True), ([-0.1, 0.8], False)],
)
def test_an_axis_begins_at_zero_only_where_that_leaves_room_for_the_values(
    report: Report, means: list[float], from_zero: bool
) -> None:
    """A band of few seeds does not stretch it: it is cut."""
    metric = report.curves_of("reward/mean")
    steps = {"steps": [8, 16], "mean": means, "low": [-9.0, -9.0], "high": [9.0, 9.0], "seeds": []}
    flat = metric.model_copy(update={"configs": [metric.configs[0].model_copy(update=steps)]})
    (figure,) = curve_figures("reward/mean")(report.model_copy(update={"curves": [flat]}), config_styles(report))
    axis, span = figure["layout"]["yaxis"], means[1] - means[0]
    assert (axis["rangemode"] == "tozero") is from_zero
    least, most = axis["autorangeoptions"].values()
    assert least == 0 if from_zero else min(means) - 0.5 <= least < min(means)
    assert max(means) < most <= max(means) + (0.5 * span or 0.5)
