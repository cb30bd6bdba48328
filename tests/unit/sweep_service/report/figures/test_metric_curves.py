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


def test_entropy_and_reward_come_first_and_pass_at_k_has_a_section_of_its_own(report: Report) -> None:
    ids = {one.id: [figure["id"] for figure in one.figures] for one in sections(report, config_styles(report))}
    assert next(iter(ids)) == "curves"
    assert ids["curves"] == ["entropy", "eval/avg_at_k", "reward/mean"]
    assert ids["passes"] == ["eval/pass_at_k"]
    assert "completion/length_mean" in ids["more"]
    assert "entropy-drivers" in ids["tokens"]


def test_no_band_of_a_share_rises_above_1(report: Report) -> None:
    for key, most in (("eval/pass_at_k", 1), ("eval/avg_at_k", 1), ("reward/mean", 1.5)):
        found = report.curves_of(key)
        size = len(found.configs[0].steps)
        wide = found.configs[0].model_copy(update={"low": [0.5] * size, "high": [1.5] * size})
        changed = report.model_copy(update={"curves": [found.model_copy(update={"configs": [wide]})]})
        (figure,) = curve_figures(key)(changed, config_styles(report))
        assert max(figure["data"][0]["y"]) == most


def test_user_text_is_escaped(report: Report) -> None:
    changed = hostile(report)
    check(curve_figures("reward/mean", "eval/avg_at_k")(changed, config_styles(changed)))
