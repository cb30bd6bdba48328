"""The gradient's weight by region and the ratio's histogram over training."""

import math

import pytest

from sweep_service.report import Report
from sweep_service.report.build import build
from sweep_service.report.figures import config_styles
from sweep_service.report.figures.regions import region_figures
from sweep_service.sweep.records import Role
from tests.unit.sweep_service.report.figure_checks import by_id, check, hostile
from tests.unit.sweep_service.report.report_sweeps import sweep_inputs
from trainers.record.metrics import RATIO_BINS


@pytest.fixture(scope="module")
def report() -> Report:
    return build(sweep_inputs(advantage=0.05))


def test_all_figures(report: Report) -> None:
    figures = region_figures(report, config_styles(report))
    assert list(by_id(figures)) == ["share/na_lp", "share/pa_lp", "weight_share", "ratio_share"]
    check(figures)
    assert figures == region_figures(report.model_copy(), config_styles(report))


def test_user_text_is_escaped(report: Report) -> None:
    changed = hostile(report)
    check(region_figures(changed, config_styles(changed)))


def test_best_baseline_and_worst_are_shown(report: Report) -> None:
    figure = by_id(region_figures(report, config_styles(report)))["weight_share"]
    titles = [note["text"] for note in figure["layout"]["annotations"]]
    assert titles == ["<b>best: β1=0 β2=1</b>", "<b>baseline β1=0 β2=0</b>", "<b>worst: β1=1 β2=1</b>"]


def test_a_config_that_is_best_and_worst_is_shown_once(report: Report) -> None:
    only = [row for row in report.configs if row.id == report.best.config_id]
    changed = report.model_copy(update={"configs": only, "curves": _of(report, only[0].id)})
    (panel,) = by_id(region_figures(changed, config_styles(changed)))["weight_share"]["layout"]["annotations"]
    assert panel["text"] == f"<b>best: {only[0].label}</b>"


def _of(report: Report, config_id: str) -> list[object]:
    return [
        found.model_copy(update={"configs": [curve for curve in found.configs if curve.config_id == config_id]})
        for found in report.curves
    ]


def test_weights_are_the_means_stacked_without_the_inside(report: Report) -> None:
    baseline = next(row for row in report.configs if Role.BASELINE in row.roles)
    figure = by_id(region_figures(report, config_styles(report)))["weight_share"]
    second = [trace for trace in figure["data"] if trace["stackgroup"] == "panel1"]
    wanted = {
        found.key: curve.mean
        for found in report.curves
        for curve in found.configs
        if curve.config_id == baseline.id and found.key.startswith("weight_share/")
    }
    order = ("na_lp", "pa_lp", "na_high", "pa_low")
    assert [trace["y"] for trace in second] == [wanted[f"weight_share/{region}"] for region in order]
    assert {trace["yaxis"] for trace in second} == {"y2"}
    assert [trace["showlegend"] for trace in figure["data"]] == [True] * 4 + [False] * 8


def test_the_histogram_has_a_row_a_bin_and_the_log_of_its_share(report: Report) -> None:
    figure = by_id(region_figures(report, config_styles(report)))["ratio_share"]
    heat = figure["data"][0]
    assert len(heat["z"]) == len(heat["y"]) == len(RATIO_BINS)
    assert heat["y"][0] == "below 0.5"
    assert all(len(row) == len(heat["x"]) <= 60 for row in heat["z"])
    middle = list(RATIO_BINS).index("0.95_to_1.05")
    assert heat["z"][middle][0] == pytest.approx(math.log10(heat["customdata"][middle][0]), abs=1e-3)


def test_an_empty_bin_has_no_colour(report: Report) -> None:
    curves = [
        found.model_copy(
            update={
                "configs": [
                    c.model_copy(update={"mean": [0.0, None, *[1e-9] * (len(c.steps) - 2)]}) for c in found.configs
                ]
            }
        )
        if found.key == "ratio_share/above_2"
        else found
        for found in report.curves
    ]
    figures = region_figures(report.model_copy(update={"curves": curves}), config_styles(report))
    check(figures)
    assert by_id(figures)["ratio_share"]["data"][0]["z"][-1][:3] == [None, None, -5.0]


def test_older_sweeps_lack_ratios(report: Report) -> None:
    for missing in ("ratio_share/above_2", "ratio_share/"):
        curves = [found for found in report.curves if not found.key.startswith(missing)]
        left = by_id(region_figures(report.model_copy(update={"curves": curves}), config_styles(report)))
        assert set(left) == {"share/na_lp", "share/pa_lp", "weight_share"}
    assert region_figures(report.model_copy(update={"curves": []}), config_styles(report)) == []
