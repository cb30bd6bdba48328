"""The descriptive panels."""

import pytest

from sweep_service.report import Report, build
from sweep_service.report.figures import looks
from sweep_service.report.figures.panels import panel_figures
from sweep_service.report.model import Descriptive, Profile
from tests.unit.sweep_service.report.figure_checks import by_id, check, hostile
from tests.unit.sweep_service.report.report_sweeps import sweep_inputs


@pytest.fixture(scope="module")
def report() -> Report:
    """With a descriptive part of known numbers."""
    built = build(sweep_inputs())
    first, second, third = (row.id for row in built.configs[:3])
    found = Descriptive(
        comparator_id=first,
        thresholds=[0.6, 0.7, 0.8],
        profiles=[Profile(config_id=id_, shares=[1.0, 0.5, 0.0]) for id_ in (first, second, third)],
        iqm={second: 0.03, third: -0.1},
        improvement={second: 0.75, third: 0.0},
        training_sd=0.02,
        evaluation_se=0.006,
    )
    return built.model_copy(update={"descriptive": found})


def test_both_figures_say_that_they_claim_nothing(report: Report) -> None:
    figures = panel_figures(report, looks(report))
    assert list(by_id(figures)) == ["profiles", "summaries"]
    check(figures)
    assert all("no claim" in figure["note"] for figure in figures)
    changed = hostile(report)
    check(panel_figures(changed, looks(changed)))


def test_profiles_are_steps_of_each_config(report: Report) -> None:
    figure = by_id(panel_figures(report, looks(report)))["profiles"]
    assert [trace["meta"]["config"] for trace in figure["data"]] == [row.id for row in report.configs[:3]]
    for trace in figure["data"]:
        assert trace["line"]["shape"] == "vh"
        assert list(zip(trace["x"], trace["y"], strict=True)) == [(0.6, 1.0), (0.7, 0.5), (0.8, 0.0)]


def test_summaries_have_two_columns_and_a_row_a_config(report: Report) -> None:
    figure = by_id(panel_figures(report, looks(report)))["summaries"]
    iqm, improvement = figure["data"]
    assert (iqm["x"], iqm["xaxis"]) == ([0.03, -0.1], "x")
    assert (improvement["x"], improvement["xaxis"]) == ([0.75, 0.0], "x2")
    assert iqm["y"] == improvement["y"] == [0, 1]
    assert report.configs[0].label in figure["note"]
    low, high = figure["layout"]["xaxis"]["range"]
    assert low == -high
    assert high > 0.1


def test_differences_of_zero_have_an_axis(report: Report) -> None:
    assert report.descriptive is not None
    flat = report.descriptive.model_copy(update={"iqm": dict.fromkeys(report.descriptive.iqm, 0.0)})
    figures = panel_figures(report.model_copy(update={"descriptive": flat}), looks(report))
    assert by_id(figures)["summaries"]["layout"]["xaxis"]["range"] == [-1.0, 1.0]


def test_nothing_to_describe(report: Report) -> None:
    assert panel_figures(report.model_copy(update={"descriptive": None}), looks(report)) == []
    assert report.descriptive is not None
    bare = report.descriptive.model_copy(update={"profiles": [], "iqm": {}, "improvement": {}})
    assert panel_figures(report.model_copy(update={"descriptive": bare}), looks(report)) == []
