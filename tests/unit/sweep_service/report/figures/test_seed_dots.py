"""Every seed as a dot, a row a config."""

from typing import Any

import pytest

from sweep_service.report import Report
from sweep_service.report.build import build
from sweep_service.report.figures import config_styles
from sweep_service.report.figures.seed_dots import MOST_ROWS, seed_figure, wrapped
from sweep_service.report.model import ConfigRow
from sweep_service.sweep.records import Role
from tests.unit.sweep_service.report.report_figures import checked
from tests.unit.sweep_service.report.report_sweeps import sweep_inputs


@pytest.fixture(scope="module")
def many() -> Report:
    betas = [i / 5 for i in range(5)]
    return build(sweep_inputs({"space": {"loss.beta1": betas, "loss.beta2": betas}}, confirmed=False))


def _figure(report: Report) -> dict[str, Any]:
    figure = seed_figure(report, config_styles(report))
    return checked([figure])["seeds"]


def test_every_seed_is_a_dot_and_comparators_come_first(report: Report) -> None:
    figure = _figure(report)
    dots = [trace for trace in figure["data"] if trace["mode"] == "markers"]
    confirmed = [row for row in report.configs if row.confirm]
    seeds = [(row.label, seed.value) for row in confirmed for r in (row.tune, row.confirm) if r for seed in r.seeds]
    assert sorted((trace["text"], x) for trace in dots for x in trace["x"]) == sorted(seeds)
    assert figure["layout"]["yaxis"]["ticktext"][0] == "baseline β1=0 β2=0"
    assert len(figure["layout"]["yaxis"]["tickvals"]) == len(confirmed)


def test_dots_of_two_stages_stand_apart_and_those_of_one_on_their_line(report: Report, many: Report) -> None:
    for drawn, apart in ((report, True), (many, False)):
        heights = {y for trace in _figure(drawn)["data"] if trace["mode"] == "markers" for y in trace["y"]}
        assert all((height == round(height)) is not apart for height in heights)


def test_a_line_joins_the_same_confirm_seed(report: Report) -> None:
    figure = _figure(report)
    line = figure["data"][0]
    confirmed = [row for row in report.configs if row.confirm]
    assert line["x"].count(None) == line["y"].count(None) == 3
    first = line["x"][: line["x"].index(None)]
    wanted = {seed.value for row in confirmed if row.confirm for seed in row.confirm.seeds if seed.seed == 10}
    assert set(first) == wanted


def test_a_config_far_below_stands_at_the_edge_and_does_not_stretch_the_axis(report: Report) -> None:
    assert not [trace for trace in _figure(report)["data"] if "triangle-left" in str(trace)]
    assert "triangle" not in _figure(report)["note"]
    loser = next(
        row for row in report.configs if row.confirm and row.roles == [Role.SPACE] and not _is_best(row, report)
    )
    low = [seed.model_copy(update={"value": 0.01}) for seed in loser.confirm.seeds]
    confirm = loser.confirm.model_copy(update={"seeds": low, "mean": 0.01})
    rows = [row.model_copy(update={"confirm": confirm}) if row.id == loser.id else row for row in report.configs]
    figure = _figure(report.model_copy(update={"configs": rows}))
    assert min(x for trace in figure["data"] for x in trace["x"] if x is not None) > 0.6
    (far,) = [trace for trace in figure["data"] if "triangle-left" in trace.get("marker", {}).get("symbol", [])]
    assert far["customdata"] == [[seed, 0.01] for seed in (10, 11, 12, 13)]
    assert "triangle" in figure["note"]


def _is_best(row: ConfigRow, report: Report) -> bool:
    return report.best is not None and report.best.config_id == row.id


def test_without_confirmation_the_best_of_many_are_shown(many: Report) -> None:
    figure = _figure(many)
    comparators = [row for row in many.configs if row.tune and Role.SPACE not in row.roles]
    assert len(figure["layout"]["yaxis"]["tickvals"]) == MOST_ROWS + len(comparators)
    left = len([row for row in many.configs if row.tune]) - MOST_ROWS - len(comparators)
    assert f"{left} configs with a lower tune mean left out" in figure["note"]
    assert many.best.label in {trace.get("text") for trace in figure["data"]}
    assert not [trace for trace in figure["data"] if trace["mode"] == "lines" and None in trace["x"]]


def test_the_figure_grows_with_its_rows(report: Report, many: Report) -> None:
    assert _figure(report)["height"] < _figure(many)["height"] < 1000


def test_labels_break_between_parameters() -> None:
    assert wrapped("β1=0.5 β2=1") == ["β1=0.5 β2=1"]
    assert wrapped("baseline β1=0 β2=0 lr=1e-5") == ["baseline β1=0 β2=0", "lr=1e-5"]
    assert wrapped("model=" + "x" * 40 + " β1=0") == ["model=" + "x" * 13 + "…", "β1=0"]
