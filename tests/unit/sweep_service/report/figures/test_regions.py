"""The gradient's weight by region and the ratio's histogram over training."""

import math

import pytest

from sweep_service.report import Report
from sweep_service.report.figures import Figure, config_styles
from sweep_service.report.figures.regions import region_figures
from sweep_service.sweep.records import Role
from tests.unit.sweep_service.report.report_figures import checked
from trainers.record.metrics import RATIO_BINS


def figures(report: Report) -> dict[str, Figure]:
    return checked(region_figures(report, config_styles(report)))


def test_weights_are_the_means_stacked_without_the_inside(report: Report) -> None:
    baseline = next(row for row in report.configs if Role.BASELINE in row.roles)
    figure = figures(report)["weight_share"]
    second = [trace for trace in figure["data"] if trace["stackgroup"] == "panel1"]
    wanted = {
        metric.key: curve.mean
        for metric in report.curves
        for curve in metric.configs
        if curve.config_id == baseline.id and metric.key.startswith("weight_share/")
    }
    order = ("na_lp", "pa_lp", "na_high", "pa_low")
    assert [trace["y"] for trace in second] == [wanted[f"weight_share/{region}"] for region in order]
    assert {trace["yaxis"] for trace in second} == {"y2"}
    assert [trace["showlegend"] for trace in figure["data"]] == [True] * 4 + [False] * 8


def test_the_histogram_has_a_row_a_bin_and_the_log_of_its_share(report: Report) -> None:
    figure = figures(report)["ratio_share"]
    heat = figure["data"][0]
    assert len(heat["z"]) == len(heat["y"]) == len(RATIO_BINS)
    assert heat["y"][0] == "below 0.5"
    assert all(len(row) == len(heat["x"]) <= 60 for row in heat["z"])
    middle = list(RATIO_BINS).index("0.95_to_1.05")
    assert heat["z"][middle][0] == pytest.approx(math.log10(heat["customdata"][middle][0]), abs=1e-3)


def test_an_empty_bin_has_no_colour(report: Report) -> None:
    curves = [
        metric.model_copy(
            update={
                "configs": [
                    c.model_copy(update={"mean": [0.0, None, *[1e-9] * (len(c.steps) - 2)]}) for c in metric.configs
                ]
            }
        )
        if metric.key == "ratio_share/above_2"
        else metric
        for metric in report.curves
    ]
    changed = report.model_copy(update={"curves": curves})
    assert figures(changed)["ratio_share"]["data"][0]["z"][-1][:3] == [None, None, -5.0]


def test_older_sweeps_lack_ratios(report: Report) -> None:
    for missing in ("ratio_share/above_2", "ratio_share/"):
        left = report.model_copy(update={"curves": [one for one in report.curves if not one.key.startswith(missing)]})
        assert set(figures(left)) == {"share/na_lp", "share/pa_lp", "weight_share"}
