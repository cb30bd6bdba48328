"""Entropy over training: means, seeds, bands, zones, and a panel a value of beta2."""

from typing import Any

import pytest

from sweep_service.report import Report
from sweep_service.report.build import build
from sweep_service.report.figures import ConfigStyle, config_styles
from sweep_service.report.figures.entropy_by_beta import entropy_figures
from sweep_service.report.figures.figure_style import NUM_COLOURS, Figure
from sweep_service.report.figures.metric_curves import curve_figures
from sweep_service.report.model import CurveSet, ReportCurve
from tests.unit.sweep_service.report.report_figures import axes, checked, with_parts
from tests.unit.sweep_service.report.report_sweeps import sweep_inputs

SPACE = {"loss.beta1": [0.0, 0.5, 1.0], "loss.beta2": [0.5, 1.0]}


@pytest.fixture(scope="module")
def report() -> Report:
    return build(sweep_inputs({"space": SPACE}))


def figures(report: Report) -> dict[str, Figure]:
    styles = config_styles(report)
    return checked([*curve_figures("entropy")(report, styles), *entropy_figures(report, styles)])


def traces(figure: Figure, **having: Any) -> list[Figure]:
    return [trace for trace in figure["data"] if all(trace.get(key) == value for key, value in having.items())]


def scaled(report: Report, times: float) -> Report:
    """The report with its entropy curves multiplied, but not the starts in its tables."""

    def values(means: list[float | None]) -> list[float | None]:
        return [None if value is None else value * times for value in means]

    def curve(original: ReportCurve) -> ReportCurve:
        seeds = [seed.model_copy(update={"values": values(seed.values)}) for seed in original.seeds]
        parts = {name: values(getattr(original, name)) for name in ("mean", "low", "high")}
        return original.model_copy(update={**parts, "seeds": seeds})

    curves = [
        CurveSet(key=metric.key, configs=[curve(one) for one in metric.configs]) if metric.key == "entropy" else metric
        for metric in report.curves
    ]
    return with_parts(report, curves=curves)


def test_every_config_has_a_mean_and_a_confirmed_one_has_seeds_and_a_band(report: Report) -> None:
    figure = figures(report)["entropy"]
    best = report.best
    of_best = [trace for trace in figure["data"] if trace["meta"]["config"] == best.config_id]
    assert [trace.get("fill") for trace in of_best if not trace["meta"]["seed"]] == ["toself", None]
    (seeds,) = (trace for trace in of_best if trace["meta"]["seed"])
    assert seeds["x"].count(None) + 1 == 6  # 2 tune seeds and 4 confirm seeds, a gap between two
    assert {trace["meta"]["config"] for trace in traces(figure, hovertemplate="%{y:.3g}")} == {
        row.id for row in report.configs
    }


def test_a_band_goes_around_its_mean_and_stops_where_it_has_no_bounds(report: Report) -> None:
    entropy = next(curves for curves in report.curves if curves.key == "entropy")
    first = entropy.configs[0]
    mean, low, high = [1.0, 0.8, 0.6, 0.4, 0.3], [0.9, 0.7, None, 0.3, -0.2], [1.1, 0.9, None, 0.5, 0.8]
    curve = first.model_copy(update={"steps": [8, 16, 24, 32, 40], "mean": mean, "low": low, "high": high})
    changed = with_parts(report, curves=[CurveSet(key="entropy", configs=[curve])])
    (band,) = traces(figures(changed)["entropy"], fill="toself")
    assert band["x"] == [8, 16, 16, 8, None, 32, 40, 40, 32]
    assert band["y"] == [0.9, 0.7, 0.9, 1.1, None, 0.3, 0, 0.8, 0.5]  # no entropy lies below zero


@pytest.mark.parametrize(
    ("times", "limits"),
    [(1.0, [(0, 0.2)]), (2.0, []), (3.5, [(3, 3.5)]), (0.5, [(0, 0.2)])],
    ids=["fell to 0.3 of the start", "neither", "rose to 3.5 times the start", "fell to 0.15 of the start"],
)
def test_a_zone_is_there_only_if_a_curve_comes_near(
    report: Report, times: float, limits: list[tuple[float, float]]
) -> None:
    starts = [row.entropy_start for row in report.configs if row.entropy_start is not None]
    start = sum(starts) / len(starts)
    drawn = figures(scaled(report, times))
    for layout in (drawn["entropy"]["layout"], drawn["entropy-panels"]["layout"]):
        zones = {(shape["y0"], shape["y1"]) for shape in layout["shapes"]}
        assert sorted(zones) == [
            (pytest.approx(low * start), pytest.approx(high * start, rel=0.1)) for low, high in limits
        ]


def test_each_beta2_has_a_panel_with_beta1_in_order_and_the_baseline(report: Report) -> None:
    figure = figures(report)["entropy-panels"]
    titles = [mark["text"] for mark in figure["layout"]["annotations"]]
    assert titles == ["<b>β2 = 0.5</b>", "<b>β2 = 1</b>"]
    rows = {row.id: row for row in report.configs}
    for number, beta2 in enumerate((0.5, 1.0)):
        lines = [trace for trace in figure["data"] if trace.get("xaxis") == ("x", "x2")[number] and "meta" in trace]
        inside = [rows[trace["meta"]["config"]] for trace in lines if trace["line"]["color"] != "@ink"]
        assert {row.params["loss.beta2"] for row in inside} == {beta2}
        colours = {row.params["loss.beta1"]: trace["line"]["color"] for row, trace in zip(inside, lines, strict=False)}
        assert colours == {0.0: "@s0", 0.5: "@s3", 1.0: f"@s{NUM_COLOURS - 1}"}
        assert len(traces({"data": lines}, line={"color": "@ink", "width": 2, "dash": "dot"})) == 1
    keys = [trace["name"] for trace in figure["data"] if trace.get("showlegend")]
    assert keys == ["β1 = 0", "β1 = 0.5", "β1 = 1", "baseline"]


def test_panels_share_their_axes_and_stand_in_two_columns_on_a_narrow_screen(report: Report) -> None:
    figure = figures(build(sweep_inputs({"space": SPACE | {"loss.beta2": [0.0, 0.5, 1.0]}})))["entropy-panels"]
    for layout, columns in ((figure["layout"], 3), (figure["narrow"]["layout"], 2)):
        across = axes({"layout": layout}, "x")
        assert len(across) == 3
        assert len({axis["domain"][0] for axis in across}) == columns
        assert [axis.get("matches") for axis in across] == [None, "x", "x"]
        assert [axis.get("matches") for axis in axes({"layout": layout}, "y")] == [None, "y", "y"]
    assert figure["narrow"]["height"] > figure["height"]


@pytest.mark.parametrize(
    "space",
    [
        {"loss.beta1": [0.0, 0.5, 1.0], "loss.beta2": 1.0},
        {"loss.beta1": 0.5, "loss.beta2": [0.0, 0.5]},
    ],
)
def test_one_varied_parameter_makes_no_panels(space: dict[str, Any]) -> None:
    assert set(figures(build(sweep_inputs({"space": space})))) == {"entropy"}


def test_epsilon_has_the_panels_if_beta2_is_fixed() -> None:
    space = {
        "loss.beta1": [0.0, 1.0],
        "loss.beta2": 1.0,
        "loss.epsilon": [0.1, 0.2],
        "optimizer.learning_rate": [1e-3, 2e-3],
    }
    figure = figures(build(sweep_inputs({"space": space})))["entropy-panels"]
    assert [mark["text"] for mark in figure["layout"]["annotations"]] == ["<b>ε = 0.1</b>", "<b>ε = 0.2</b>"]


@pytest.mark.long
def test_many_values_share_panels_and_every_config_is_in_one() -> None:
    space = {"loss.beta1": [0.0, 1.0], "loss.beta2": [round(0.05 * step, 2) for step in range(14)]}
    report = build(sweep_inputs({"space": space}))
    figure = figures(report)["entropy-panels"]
    titles = [mark["text"] for mark in figure["layout"]["annotations"]]
    assert titles == ["<b>β2 0 to 0.15</b>", "<b>β2 0.2 to 0.35</b>", "<b>β2 0.4 to 0.55</b>", "<b>β2 0.6 to 0.65</b>"]
    lines = [trace for trace in figure["data"] if trace.get("xaxis") and trace["line"]["color"] != "@ink"]
    assert len(lines) == 27  # β1 = 0, β2 = 0 is the baseline
    assert not [trace for trace in lines if "meta" in trace]  # the buttons hide most of so many configs: not here
    assert "Every config" in figure["note"]


def looks(report: Report, *params: dict[str, Any]) -> list[ConfigStyle]:
    """Of configs with these parameters."""
    rows = [
        row.model_copy(update={"params": {"loss.beta1": None, **own}, "roles": ["space"], "number": number})
        for number, (row, own) in enumerate(zip(report.configs, params, strict=False))
    ]
    return [*config_styles(with_parts(report, configs=rows)).values()]


@pytest.mark.parametrize(
    ("name", "values", "colours"),
    [
        ("loss.name", ["grpo", "cispo", "dapo"], ["@c2", "@c0", "@c1"]),
        ("loss.epsilon", [0.2, 0.1, 0.3], ["@s3", "@s0", "@s6"]),
    ],
)
def test_losses_have_a_colour_each_and_only_numbers_are_in_order(
    report: Report, name: str, values: list[Any], colours: list[str]
) -> None:
    assert [look.colour for look in looks(report, *({name: value} for value in values))] == colours


def test_a_loss_without_beta1_has_its_own_colour(report: Report) -> None:
    losses = [("ce_gppo", 0.5), ("ce_gppo", 1.0), ("grpo", None), ("cispo", None)]
    made = looks(report, *({"loss.name": name, "loss.beta1": beta1} for name, beta1 in losses))
    assert [look.colour for look in made] == ["@c0", "@c0", "@c2", "@c1"]
    assert made[0].dash != made[1].dash
