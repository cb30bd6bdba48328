"""Trials' means over benchmarks against the entropy that they kept."""

from dataclasses import replace
from statistics import fmean
from typing import Any

import pytest

from sweep_service.report import Report
from sweep_service.report.build import build
from sweep_service.report.figures import config_styles, sections
from sweep_service.report.figures.benchmark_entropy import benchmark_entropy_figures
from sweep_service.report.figures.figure_style import Figure
from sweep_service.sweep.records import Config, Evaluation, Stage, TrialState
from tests.unit.sweep_service.report.figure_checks import HOSTILE, check, hostile
from tests.unit.sweep_service.report.report_benchmarks import NAMES, better_than_baseline, measured_inputs
from tests.unit.sweep_service.report.report_sweeps import sweep_inputs


@pytest.fixture(scope="module")
def report() -> Report:
    return build(measured_inputs())


def drawn(report: Report) -> Figure:
    (figure,) = benchmark_entropy_figures(report, config_styles(report))
    check([figure])
    return figure


def of_config(figure: Figure, config_id: str) -> list[dict[str, Any]]:
    """The dots of a config's trials, and its mean."""
    traces = [trace for trace in figure["data"] if trace.get("meta", {}).get("config") == config_id]
    return [trace for trace in traces if trace["mode"] == "markers"]


def test_each_confirm_trial_is_a_point_in_its_config_s_colour_and_each_config_a_mean(report: Report) -> None:
    figure, styles = drawn(report), config_styles(report)
    confirmed = [row for row in report.configs if row.confirm]
    assert len(confirmed) == 4
    for row in confirmed:
        dots, centre = of_config(figure, row.id)
        trials = [t for t in report.trials if t.config_id == row.id and t.stage is Stage.CONFIRM]
        assert dots["x"] == [trial.entropy_kept for trial in trials]
        assert dots["y"] == [fmean(trial.benchmarks[name] for name in NAMES) for trial in trials]
        assert (centre["x"], centre["y"]) == ([pytest.approx(fmean(dots["x"]))], [pytest.approx(fmean(dots["y"]))])
        assert dots["marker"]["color"] == centre["marker"]["color"] == styles[row.id].colour
    means = {row.config_id: cell.mean for row in report.benchmarks.rows if (cell := row.cells[-1]) and not row.initial}
    assert {row.id: of_config(figure, row.id)[1]["y"][0] for row in confirmed} == pytest.approx(means)
    assert "Rings" not in figure["note"]


def test_the_initial_model_is_a_line_with_a_star_at_its_score(report: Report) -> None:
    initial = report.benchmarks.rows[0].cells[-1]
    line, star = drawn(report)["data"][:2]
    assert line["y"] == [initial.mean, initial.mean]
    assert (star["y"], star["marker"]["symbol"]) == ([initial.mean], "star")
    assert star["text"] == ["initial model, entropy 1  "]
    assert "meta" not in star  # it is no config that could be hidden


def test_a_trial_that_was_not_measured_on_every_benchmark_is_no_point() -> None:
    inputs = measured_inputs()
    trial = next(t for t in inputs.trials if t.seed == 12)
    evaluation = next(one for one in inputs.evaluations if one.trial_id == trial.id)
    fewer = [one for one in inputs.benchmark_results if (one.evaluation_id, one.benchmark) != (evaluation.id, NAMES[1])]
    report = build(replace(inputs, benchmark_results=tuple(fewer)))
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


def test_the_page_has_it_only_where_a_trial_was_measured(report: Report) -> None:
    on_page = [figure["id"] for section in sections(report, config_styles(report)) for figure in section.figures]
    assert "benchmark-entropy" in on_page
    plain = build(sweep_inputs())
    nothing = build(measured_inputs(fails=lambda one: one.trial_id is not None))
    assert all(trial.benchmarks == {} for trial in nothing.trials)
    assert benchmark_entropy_figures(plain, config_styles(plain)) == []
    assert benchmark_entropy_figures(nothing, config_styles(nothing)) == []


def test_user_text_is_escaped(report: Report) -> None:
    table = report.benchmarks
    rows = [row.model_copy(update={"label": HOSTILE}) for row in table.rows]
    columns = [column.model_copy(update={"benchmark": HOSTILE}) for column in table.columns[:1]]
    trials = [trial.model_copy(update={"benchmarks": {HOSTILE: 0.5}}) for trial in report.trials]
    changed = table.model_copy(update={"rows": rows, "columns": columns})
    drawn(hostile(report).model_copy(update={"benchmarks": changed, "trials": trials}))


def test_a_failed_trial_has_no_scores() -> None:
    def fails(one: Evaluation) -> bool:
        return one.seed == 10

    report = build(measured_inputs(fails=fails))
    for trial in report.trials:
        measured = trial.stage is Stage.CONFIRM and trial.seed != 10 and trial.state is TrialState.SUCCEEDED
        assert set(trial.benchmarks) == (set(NAMES) if measured else set())
