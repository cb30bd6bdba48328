"""Metrics over training, in the order in which a section names them."""

import pytest

from sweep_service.report import Report
from sweep_service.report.build import build
from sweep_service.report.figures import config_styles, sections
from sweep_service.report.figures.metric_curves import curve_figures
from tests.unit.sweep_service.report.figure_checks import by_id, check, hostile
from tests.unit.sweep_service.report.report_sweeps import sweep_inputs


@pytest.fixture(scope="module")
def report() -> Report:
    return build(sweep_inputs())


def test_metrics_are_drawn_in_the_order_named_as_far_as_they_are_there(report: Report) -> None:
    draw = curve_figures("reward/mean", "absent", "eval/avg_at_k")
    figures = draw(report, config_styles(report))
    assert list(by_id(figures)) == ["reward/mean", "eval/avg_at_k"]
    check(figures)
    assert draw(report.model_copy(update={"curves": []}), config_styles(report)) == []


def test_learning_shows_what_rises_together_and_the_length(report: Report) -> None:
    learning = next(section for section in sections(report, config_styles(report)) if section.id == "learning")
    ids = [figure["id"] for figure in learning.figures]
    assert ids == ["eval/avg_at_k", "reward/mean", "eval/pass_at_k", "completion/length_mean"]


def test_user_text_is_escaped(report: Report) -> None:
    changed = hostile(report)
    check(curve_figures("reward/mean", "eval/avg_at_k")(changed, config_styles(changed)))
