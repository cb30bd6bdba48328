"""What moved entropy: predicted changes by region against the measured one."""

from sweep_service.report import Report
from sweep_service.report.build import build
from sweep_service.report.figures import config_styles
from sweep_service.report.figures.entropy_drivers import driver_figures
from sweep_service.report.figures.figure_style import REGION_COLOURS, REGION_NAMES, Figure
from sweep_service.report.model import CurveSet, ReportCurve
from tests.unit.sweep_service.report.report_figures import axes, checked, with_parts
from tests.unit.sweep_service.report.report_sweeps import sweep_inputs


def figure(report: Report) -> Figure:
    return checked(driver_figures(report, config_styles(report)))["entropy-drivers"]


def bars(drawn: Figure, panel: int) -> dict[str, list[float | None]]:
    """A panel's bars by region."""
    regions = {colour: region for region, colour in REGION_COLOURS.items()}
    x = "x" if panel == 0 else f"x{panel + 1}"
    traces = [trace for trace in drawn["data"] if trace["type"] == "bar" and trace["xaxis"] == x]
    return {regions[trace["marker"]["color"]]: trace["y"] for trace in traces}


def test_best_baseline_and_worst_stand_side_by_side(report: Report) -> None:
    titles = [mark["text"] for mark in figure(report)["layout"]["annotations"]]
    assert titles == ["<b>best: β1=0 β2=1</b>", "<b>baseline β1=0 β2=0</b>", "<b>worst: β1=1 β2=1</b>"]


def test_each_panel_stacks_all_regions_and_has_the_measured_change(report: Report) -> None:
    drawn = figure(report)
    for panel in range(3):
        assert set(bars(drawn, panel)) == set(REGION_NAMES)
        lines = [trace for trace in drawn["data"] if trace["type"] == "scatter"]
        assert lines[panel]["yaxis"] == f"y{4 + panel}"
    assert drawn["layout"]["barmode"] == "relative"
    assert sum(trace["showlegend"] for trace in drawn["data"]) == len(REGION_NAMES) + 1
    assert "never sizes" in drawn["note"]


def test_a_bar_is_the_mean_of_its_stretch_of_training(report: Report) -> None:
    steps = list(range(1, 97))
    values: list[float | None] = [float(step) for step in steps]
    values[4:8] = [None] * 4
    curve = ReportCurve(config_id=report.best.config_id, steps=steps, mean=values, seeds=[])
    drawn = figure(with_parts(report, curves=[CurveSet(key="entropy_change/predicted_na_lp", configs=[curve])]))
    made = bars(drawn, 0)["na_lp"]
    assert len(made) == 24  # of 4 steps each
    assert made[:3] == [2.5, None, 10.5]
    assert bars(drawn, 0)["inside"] == [None] * 24


def test_a_bar_has_at_least_two_points_whoever_stopped_early(report: Report) -> None:
    def num_bars(first: list[int], second: list[int]) -> int:
        ids = [row.id for row in report.configs if row.id == best or "baseline" in row.roles]
        curves = [
            ReportCurve(config_id=id_, steps=steps, mean=[1.0] * len(steps), seeds=[])
            for id_, steps in zip(ids, (first, second), strict=True)
        ]
        drawn = figure(with_parts(report, curves=[CurveSet(key="entropy_change/predicted_inside", configs=curves)]))
        return len(bars(drawn, 0)["inside"])

    best = report.best.config_id
    fine, coarse = list(range(1, 101)), list(range(5, 101, 5))
    assert num_bars(fine, fine) == 24
    assert num_bars(fine, coarse) == 10
    assert num_bars(fine, fine[:12]) == 24


def test_zero_lies_at_the_same_height_on_both_axes_and_everything_fits(report: Report) -> None:
    drawn = figure(report)
    for layout in (drawn["layout"], drawn["narrow"]["layout"]):
        ranges = [axis["range"] for axis in axes({"layout": layout}, "y")]
        assert len(ranges) == 6
        assert len({round(-low / high, 9) for low, high in ranges}) == 1
        low, high = ranges[3]
        measured = [value for t in drawn["data"] if t["type"] == "scatter" for value in t["y"] if value is not None]
        assert low <= min(measured)
        assert high >= max(measured)
        stacks = [
            sum(value for value in stack if value is not None and value < 0)
            for panel in range(3)
            for stack in zip(*bars(drawn, panel).values(), strict=True)
        ]
        assert ranges[0][0] <= min(stacks)


def test_a_config_that_is_best_and_worst_has_one_panel() -> None:
    report = build(sweep_inputs({"space": {"loss.beta1": 0.5, "loss.beta2": 1.0}}))
    titles = [mark["text"] for mark in figure(report)["layout"]["annotations"]]
    assert titles == ["<b>best: β1=0.5 β2=1</b>", "<b>baseline β1=0 β2=0</b>"]


def test_without_predictions_there_is_no_figure(report: Report) -> None:
    measured = [metric for metric in report.curves if metric.key == "entropy_change/measured"]
    assert driver_figures(with_parts(report, curves=measured), config_styles(report)) == []
