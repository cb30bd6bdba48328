"""The objective against the entropy that is left."""

import pytest

from sweep_service.report import Report
from sweep_service.report.build import build
from sweep_service.report.figures import config_styles
from sweep_service.report.figures.figure_style import Figure
from sweep_service.report.figures.tradeoff_figure import tradeoff_figures
from sweep_service.report.model import TradeoffPoint
from tests.unit.sweep_service.report.report_figures import checked, point, with_parts
from tests.unit.sweep_service.report.report_sweeps import sweep_inputs


def figures(report: Report) -> dict[str, Figure]:
    return checked(tradeoff_figures(report, config_styles(report)))


def plane(report: Report, *places: tuple[float, float, bool]) -> Figure:
    """The first figure with the report's first configs at these places: objective, entropy kept, on the front."""
    points: list[TradeoffPoint] = [
        point(row.id, objective, kept, front)
        for row, (objective, kept, front) in zip(report.configs, places, strict=False)
    ]
    return figures(with_parts(report, tradeoff=points))["tradeoff"]


def crosses(figure: Figure) -> dict[str, Figure]:
    return {trace["meta"]["config"]: trace for trace in figure["data"] if "error_x" in trace}


def test_the_front_is_a_staircase_through_its_points_alone(report: Report) -> None:
    figure = plane(report, (0.8, 0.2, True), (0.6, 0.9, True), (0.5, 0.5, False), (0.7, 0.4, True))
    front = figure["data"][0]
    assert (front["x"], front["y"]) == ([0.2, 0.4, 0.9], [0.8, 0.7, 0.6])
    assert front["line"]["shape"] == "vh"


def test_each_config_has_a_cross_and_a_beaten_one_is_faint(report: Report) -> None:
    figure = plane(report, (0.8, 0.2, True), (0.7, 0.1, False))
    first, second = (crosses(figure)[row.id] for row in report.configs[:2])
    assert first["error_y"]["array"] == [pytest.approx(0.01)]
    assert first["error_x"]["arrayminus"] == [pytest.approx(0.02)]
    assert (first["opacity"], second["opacity"]) == (1, 0.4)


def test_a_point_without_an_interval_has_no_cross(report: Report) -> None:
    bare = point(report.configs[0].id, 0.8, 0.5).model_copy(update={"objective_low": None, "objective_high": None})
    figure = figures(with_parts(report, tradeoff=[bare]))["tradeoff"]
    (cross,) = crosses(figure).values()
    assert cross["error_y"] == {"visible": False}
    assert cross["error_x"]["array"] == [pytest.approx(0.02)]


def test_a_collapsed_config_stands_at_the_edge_and_says_its_value(report: Report) -> None:
    figure = plane(
        report, (0.80, 0.2, True), (0.81, 0.3, True), (0.79, 0.3, False), (0.80, 0.25, False), (0.03, 0.9, True)
    )
    far = crosses(figure)[report.configs[4].id]
    assert far["marker"]["symbol"] == "triangle-down"
    assert 0.7 < far["y"][0] < 0.78  # below the crosses of the others
    assert far["error_y"] == {"visible": False}
    assert "objective 0.030" in far["text"][0]
    assert report.configs[4].ruined
    assert (figure["data"][0]["x"], figure["data"][0]["y"]) == ([0.3], [0.81])  # the front ends before it
    assert far["opacity"] == 0.4
    assert "Triangles" in figure["note"]
    assert "Triangles" not in plane(report, (0.8, 0.2, True), (0.7, 0.3, True))["note"]


def test_few_configs_are_named_but_never_on_each_other(report: Report) -> None:
    apart = plane(report, (0.9, 0.1, True), (0.5, 0.5, True), (0.1, 0.9, True))
    assert len([trace for trace in apart["data"] if trace["mode"] == "text"]) == 3
    heap = plane(report, *[(0.8, 0.5, True)] * 4, (0.1, 0.9, True))
    names = [(trace["x"][0], trace["textposition"]) for trace in heap["data"] if trace["mode"] == "text"]
    assert sorted(names) == [(0.5, "bottom right"), (0.5, "top right"), (0.9, "top left")]


def test_of_many_configs_the_hidden_ones_are_one_cloud() -> None:
    report = build(sweep_inputs({"space": {"loss.beta1": [round(0.01 * step, 2) for step in range(40)]}}))
    points = [point(row.id, 0.5 + 0.001 * row.number, 0.5, False) for row in report.configs]
    report = with_parts(report, tradeoff=points)
    figure = figures(report)["tradeoff"]
    hidden = [row_id for row_id, look in config_styles(report).items() if not look.shown]
    (cloud,) = [trace for trace in figure["data"] if len(trace["x"]) == len(hidden)]
    assert "meta" not in cloud
    assert set(crosses(figure)) == {row.id for row in report.configs}
