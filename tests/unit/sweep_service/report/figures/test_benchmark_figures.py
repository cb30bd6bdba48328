"""Trials' means over benchmarks against the entropy that they kept; pass@k beside the initial model's."""

from statistics import fmean
from typing import Any

import pytest

from sweep_service.report import Report
from sweep_service.report.build import build
from sweep_service.report.figures import config_styles
from sweep_service.report.figures.benchmark_figures import benchmark_entropy_figures, pass_figures
from sweep_service.report.figures.figure_style import Figure
from sweep_service.sweep.records import Config, Evaluation, Stage
from tests.unit.sweep_service.report.report_benchmarks import (
    NAMES,
    better_than_baseline,
    measured_inputs,
    without_result,
)
from tests.unit.sweep_service.report.report_figures import checked


def drawn(report: Report) -> Figure:
    return checked(benchmark_entropy_figures(report, config_styles(report)))["benchmark-entropy"]


def of_config(figure: Figure, config_id: str) -> list[dict[str, Any]]:
    """The dots of a config's trials, and its mean."""
    traces = [trace for trace in figure["data"] if trace.get("meta", {}).get("config") == config_id]
    return [trace for trace in traces if trace["mode"] == "markers"]


def test_each_confirm_trial_is_a_point_in_its_config_s_colour_and_each_config_a_mean(measured: Report) -> None:
    figure, styles = drawn(measured), config_styles(measured)
    confirmed = [row for row in measured.configs if row.confirm]
    assert len(confirmed) == 4
    for row in confirmed:
        dots, centre = of_config(figure, row.id)
        trials = [t for t in measured.trials if t.config_id == row.id and t.stage is Stage.CONFIRM]
        assert dots["x"] == [trial.entropy_kept for trial in trials]
        assert dots["y"] == [fmean(trial.benchmarks[name] for name in NAMES) for trial in trials]
        assert (centre["x"], centre["y"]) == ([pytest.approx(fmean(dots["x"]))], [pytest.approx(fmean(dots["y"]))])
        assert dots["marker"]["color"] == centre["marker"]["color"] == styles[row.id].colour
    means = {
        row.config_id: cell.mean for row in measured.benchmarks.rows if (cell := row.cells[-1]) and not row.initial
    }
    assert {row.id: of_config(figure, row.id)[1]["y"][0] for row in confirmed} == pytest.approx(means)
    assert "Rings" not in figure["note"]


def test_the_initial_model_is_a_line_with_a_star_at_its_score(measured: Report) -> None:
    initial = measured.benchmarks.rows[0].cells[-1]
    line, star = drawn(measured)["data"][:2]
    assert line["y"] == [initial.mean, initial.mean]
    assert (star["y"], star["marker"]["symbol"]) == ([initial.mean], "star")
    assert star["text"] == ["initial model, entropy 1  "]
    assert "meta" not in star  # it is no config that could be hidden


def test_a_trial_that_was_not_measured_on_every_benchmark_is_no_point() -> None:
    inputs, trial = without_result(measured_inputs())
    report = build(inputs)
    assert [len(row.benchmarks) for row in report.trials if row.id == trial.id] == [1]
    assert len(of_config(drawn(report), trial.config_id)[0]["x"]) == 3


def test_tune_trials_are_rings_and_one_far_below_is_a_triangle() -> None:
    def gain(config: Config, evaluation: Evaluation) -> float:
        one_trial = evaluation.seed == 13 and config.params["loss.beta1"] == 0.5
        return -0.8 if one_trial else better_than_baseline(config, evaluation)

    report = build(measured_inputs(gain, spec={"benchmarks": {"names": ["aime24"], "of": "all"}}))
    figure = drawn(report)
    symbols = [symbol for row in report.configs for symbol in of_config(figure, row.id)[0]["marker"]["symbol"]]
    assert {"circle", "circle-open", "diamond", "triangle-down"} == set(symbols)
    assert "Rings" in figure["note"]
    assert "Triangles" in figure["note"]
    assert figure["layout"]["yaxis"]["title"]["text"] == "avg@k, aime24"
    low = min(y for row in report.configs for y in of_config(figure, row.id)[0]["y"])
    below = min(trial.benchmarks["aime24"] for trial in report.trials if trial.benchmarks)
    assert low > below + 0.1


def test_the_initial_model_alone_is_no_figure() -> None:
    nothing = build(measured_inputs(fails=lambda one: one.trial_id is not None))
    assert all(trial.benchmarks == {} for trial in nothing.trials)
    assert benchmark_entropy_figures(nothing, config_styles(nothing)) == []


def test_each_benchmark_has_a_line_for_each_model_that_rises_with_k(measured: Report) -> None:
    figures = pass_figures(measured, config_styles(measured))
    assert [figure["title"] for figure in figures] == [f"pass@k on {name}" for name in NAMES]
    for place, figure in enumerate(figures):
        lines = figure["data"]
        assert [line["name"] for line in lines] == [row.label for row in measured.benchmarks.rows]
        assert all(line["x"] == [1, 2, 4, 8, 16] and line["y"] == sorted(line["y"]) for line in lines)
        for line, row in zip(lines, measured.benchmarks.rows, strict=True):
            cell = row.cells[place]
            assert line["y"][0] == pytest.approx(cell.mean, abs=1e-5)
        assert "meta" not in lines[0]  # the initial model is no config that could be hidden
        assert lines[0]["showlegend"]
