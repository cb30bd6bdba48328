"""The grid of two parameters: cells, holes, facets."""

from collections.abc import Sequence
from typing import Any

import pytest

from sweep_service.report import Report
from sweep_service.report.figures import config_styles
from sweep_service.report.figures.figure_style import Figure
from sweep_service.report.figures.heatmap import heatmap_figures
from sweep_service.report.model import Cell
from tests.unit.sweep_service.report.report_figures import cell, checked, grid, with_parts


def figures(report: Report, cells: Sequence[Cell], **changed: Any) -> dict[str, Figure]:
    return checked(heatmap_figures(with_parts(report, grid=grid(cells, **changed)), config_styles(report)))


def texts(figure: Figure) -> dict[tuple[int, int], str]:
    """What is written at which place."""
    return {
        (x, y): words
        for trace in figure["data"]
        if trace.get("mode") == "text"
        for x, y, words in zip(trace["x"], trace["y"], trace["text"], strict=True)
    }


def square(**last: Any) -> list[Cell]:
    return [cell("0", "0.5", 0.8), cell("1", "0.5", 0.7), cell("0", "1", 0.6), cell("1", "1", 0.5, **last)]


def test_a_cell_says_mean_half_width_and_seeds(report: Report) -> None:
    cells = square(n=2, planned=3, confirm=0.52)
    figure = figures(report, cells)["grid-objective-0"]
    assert figure["data"][0]["z"] == [[0.8, 0.7], [0.6, 0.5]]
    assert texts(figure)[0, 0] == "<b>0.800</b><br>±0.012<br>n 3"
    assert texts(figure)[1, 1] == "<b>0.500</b><br>±0.012<br>n 2/3<br>✓ 0.520"
    (frame,) = figure["layout"]["shapes"]
    assert (frame["x0"], frame["y1"]) == (pytest.approx(0.53), pytest.approx(1.46))
    assert frame["line"]["color"] == "#ffffff"  # on the darkest cell
    assert "Framed" in figure["note"]
    assert "Framed" not in figures(report, square())["grid-objective-0"]["note"]


def test_the_best_config_has_a_star(report: Report) -> None:
    figure = figures(report, square(config_id=report.best.config_id))["grid-objective-0"]
    assert [place for place, words in texts(figure).items() if "★" in words] == [(1, 1)]


def test_holes_are_hatched_and_failed_ones_say_so(report: Report) -> None:
    cells = [cell("0", "0.5", 0.8), cell("1", "0.5", None), cell("0", "1", 0.6), cell("1", "1", None, planned=3)]
    figure = figures(report, cells)["grid-objective-0"]
    assert figure["data"][0]["z"] == [[0.8, None], [0.6, None]]
    (hatch,) = [trace for trace in figure["data"] if trace.get("mode") == "lines"]
    assert {round(x) for x in hatch["x"] if x is not None} == {1}
    assert {round(y) for y in hatch["y"] if y is not None} == {0, 1}
    assert all(0.5 < x < 1.5 for x in hatch["x"] if x is not None)
    assert all(-0.5 < y < 1.5 for y in hatch["y"] if y is not None)
    assert (1, 0) not in texts(figure)
    assert texts(figure)[1, 1] == "<b>n 0/3</b>"


def test_a_missing_combination_is_a_hole_too(report: Report) -> None:
    cells = square()[:3]
    assert figures(report, cells)["grid-objective-0"]["data"][0]["z"] == [[0.8, 0.7], [0.6, None]]


def test_each_facet_has_its_maps_on_the_same_colours(report: Report) -> None:
    cells = [cell(x, "0.5", 0.8 - 0.1 * facet, str(facet)) for facet in (1, 2) for x in ("0", "1")]
    made = figures(report, cells, facet="loss.epsilon")
    assert list(made) == ["grid-objective-0", "grid-kept-0", "grid-objective-1", "grid-kept-1"]
    assert made["grid-objective-1"]["title"] == "Objective over β1 and β2, ε = 2"
    heats = [figure["data"][0] for id_, figure in made.items() if "objective" in id_]
    assert [(heat["zmin"], heat["zmax"]) for heat in heats] == [pytest.approx((0.6, 0.7))] * 2
    assert "note" in made["grid-objective-0"]
    assert "note" not in made["grid-objective-1"]


def test_one_collapsed_cell_does_not_take_the_colours_of_the_rest(report: Report) -> None:
    cells = [cell(str(x), str(y), 0.80 + 0.01 * x + 0.001 * y) for y in range(3) for x in range(3)]
    cells[8] = cell("2", "2", 0.03)
    figure = figures(report, cells)["grid-objective-0"]
    assert figure["data"][0]["zmin"] == pytest.approx(0.80)
    assert "Cells below 0.80 have one colour" in figure["note"]


def test_texts_can_be_read_on_every_cell(report: Report) -> None:
    cells = [cell(str(x), "1", x / 11) for x in range(12)]
    figure = figures(report, cells)["grid-objective-0"]
    (labels,) = [trace for trace in figure["data"] if trace.get("mode") == "text"]
    assert labels["textfont"]["color"] == ["#ffffff"] * 5 + ["#10131a"] * 7


def test_many_columns_take_the_whole_width_and_short_numbers_on_a_narrow_screen(report: Report) -> None:
    cells = [cell(str(x), str(y), 0.5 + x / 100) for y in range(12) for x in range(12)]
    figure = figures(report, cells)["grid-objective-0"]
    assert figure["wide"]
    assert texts(figure["narrow"])[3, 0] == ".53"
    assert figure["narrow"]["height"] < figure["height"]


def test_what_a_cell_averages_over_is_said(report: Report) -> None:
    figure = figures(report, square(), others=["optimizer.learning_rate"])["grid-objective-0"]
    assert "averages over lr" in figure["note"]


def test_a_grid_without_a_result_has_no_map(report: Report) -> None:
    assert figures(report, [cell("0", "1", None)]) == {}
    assert list(figures(report, square(entropy_kept=None)[3:])) == ["grid-objective-0"]
