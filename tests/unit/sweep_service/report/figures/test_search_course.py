"""Parallel coordinates, importance, the search's course, what trials cost."""

import json
from typing import Any

import pytest

from sweep_service.report import Report, build
from sweep_service.report.figures import looks
from sweep_service.report.figures.search_course import search_figures
from sweep_service.report.formatting import NOTHING
from sweep_service.report.model import Importance
from sweep_service.sweep.records import Role, TrialState
from tests.unit.sweep_service.report.figure_checks import by_id, check, hostile
from tests.unit.sweep_service.report.report_sweeps import sweep_inputs

SPACE = {"loss.beta1": [0.0, 0.5, 1.0], "loss.beta2": [0.5, 1.0], "optimizer.learning_rate": [1e-6, 1e-5, 1e-4]}


@pytest.fixture(scope="module")
def report() -> Report:
    spec = {"space": SPACE, "training": {"loss": {"name": "ce_gppo"}, "steps": 40}, "seeds": {"tune": [0, 1]}}
    return build(sweep_inputs(spec, confirmed=False))


def _figures(report: Report) -> dict[str, Any]:
    return by_id(search_figures(report, looks(report)))


def _with_params(report: Report, **values: list[Any]) -> Report:
    """The report with other values of parameters for its configs of the space, in turn."""
    rows: list[Any] = []
    for place, row in enumerate(report.configs):
        params = row.params | {f"x.{name}": found[place % len(found)] for name, found in values.items()}
        rows.append(row.model_copy(update={"params": params}))
    return report.model_copy(update={"configs": rows})


def _ticks(figure: dict[str, Any], place: int) -> list[str]:
    return [note["text"] for note in figure["layout"]["annotations"] if note["x"] == place]


def test_all_figures(report: Report) -> None:
    names = list(SPACE)
    found = Importance(names=names, fanova=[0.2, 0.7, 0.1], ped_anova=[0.5, 0.2, 0.3], num_configs=18, text="Of 18.")
    report = report.model_copy(update={"importance": found})
    figures = search_figures(report, looks(report))
    assert list(by_id(figures)) == ["parallel", "importance", "cost"]
    check(figures)
    assert figures == search_figures(report.model_copy(), looks(report))
    changed = hostile(report)
    check(search_figures(changed, looks(changed)))


def test_axes_are_the_varied_parameters_and_the_results(report: Report) -> None:
    figure = _figures(_with_params(report, same=[7]))["parallel"]
    titles = figure["layout"]["xaxis"]["ticktext"]
    assert titles[:4] == ["β1", "β2", "lr<br>(log)", "objective<br>(tune)"]
    assert not [title for title in titles if "same" in title]
    assert _ticks(figure, 0) == ["0", "0.5", "1"]
    assert _ticks(figure, 2) == ["1e-6", "1e-5", "1e-4"]
    places = [note["y"] for note in figure["layout"]["annotations"] if note["x"] == 2]
    assert places == pytest.approx([0, 0.5, 1])


def test_every_config_of_the_space_is_one_line_and_the_best_come_last(report: Report) -> None:
    classes = [trace for trace in _figures(report)["parallel"]["data"] if "name" in trace]
    assert [trace["name"] for trace in classes][-1] == "the best tenth"
    labels = [words.split("<br>")[0] for trace in classes for words in trace["text"] if words]
    space = [row for row in report.configs if Role.SPACE in row.roles]
    assert set(labels) == {row.label for row in space}
    assert sum(trace["x"].count(0) for trace in classes) == len(space)
    assert report.best is not None
    assert classes[-1]["text"][0].startswith(report.best.label)


def test_values_that_are_no_numbers_are_places_in_a_row(report: Report) -> None:
    changed = _with_params(report, kind=["cosine", "linear", None], flag=[True, False])
    figures = search_figures(changed, looks(changed))
    check(figures)
    figure = by_id(figures)["parallel"]
    titles = figure["layout"]["xaxis"]["ticktext"]
    assert set(_ticks(figure, titles.index("kind"))) == {"cosine", "linear", NOTHING}
    assert set(_ticks(figure, titles.index("flag"))) == {"True", "False"}


def test_many_values_have_few_ticks(report: Report) -> None:
    changed = _with_params(report, drawn=[0.001 * 1.7**i for i in range(20)], word=[f"w{i}" for i in range(20)])
    figure = _figures(changed)["parallel"]
    titles = figure["layout"]["xaxis"]["ticktext"]
    assert len(_ticks(figure, titles.index("drawn<br>(log)"))) == 5
    assert len(_ticks(figure, titles.index("word"))) <= 7


def test_small_searches_have_no_parallel_coordinates(report: Report) -> None:
    assert "parallel" not in _figures(build(sweep_inputs()))
    space = [row for row in report.configs if Role.SPACE in row.roles]
    assert "parallel" not in _figures(report.model_copy(update={"configs": space[:2]}))
    without = [row.model_copy(update={"tune": None}) for row in report.configs]
    assert "parallel" not in _figures(report.model_copy(update={"configs": without}))


def test_equal_results_have_an_axis_too(report: Report) -> None:
    rows = [row.model_copy(update={"tune": report.configs[0].tune, "entropy_kept": 0.5}) for row in report.configs]
    changed = report.model_copy(update={"configs": rows})
    check(search_figures(changed, looks(changed)))


def test_importance_is_ordered_with_the_largest_on_top(report: Report) -> None:
    found = Importance(names=list(SPACE), fanova=[0.2, 0.7, 0.1], ped_anova=[0.5, 0.2, 0.3], num_configs=18, text="")
    figure = _figures(report.model_copy(update={"importance": found}))["importance"]
    bars = {trace["name"]: trace for trace in figure["data"]}
    assert bars["fANOVA"]["y"] == ["lr", "β1", "β2"]
    assert bars["fANOVA"]["x"] == [0.1, 0.2, 0.7]
    assert bars["PED-ANOVA"]["x"] == [0.3, 0.5, 0.2]
    assert "importance" not in _figures(report.model_copy(update={"importance": None}))


def test_the_best_so_far_never_falls_and_a_grid_has_no_order(report: Report) -> None:
    assert "history" not in _figures(report)
    figure = _figures(_with_params(report, drawn=[0.1 * i for i in range(30)]))["history"]
    best, dots = figure["data"]
    assert best["y"] == sorted(best["y"])
    assert best["y"][-1] == max(dots["y"])
    assert best["x"] == dots["x"] == sorted(dots["x"])
    assert len(dots["y"]) == 18


def test_cost_is_a_dot_a_trial_and_marks_the_failed(report: Report) -> None:
    trials = [trial.model_copy(update={"tokens": 1000.0 + trial.number, "seconds": 600.0}) for trial in report.trials]
    trials[0] = trials[0].model_copy(update={"state": TrialState.FAILED})
    trials[1] = trials[1].model_copy(update={"state": TrialState.RUNNING})
    trials[2] = trials[2].model_copy(update={"seconds": None})
    figure = _figures(report.model_copy(update={"trials": trials}))["cost"]
    dots = {
        data[0]: (x, y, symbol)
        for trace in figure["data"]
        for data, x, y, symbol in zip(
            trace["customdata"], trace["x"], trace["y"], trace["marker"]["symbol"], strict=True
        )
    }
    assert len(dots) == len(trials) - 1
    assert dots[trials[0].number] == (1000 + trials[0].number, 10.0, "x")
    assert dots[trials[1].number][2] == "circle-open"
    assert "minutes" in json.dumps(figure["layout"])


def test_without_tokens_the_trials_stand_in_their_order(report: Report) -> None:
    trials = [trial.model_copy(update={"tokens": None, "seconds": 9000.0}) for trial in report.trials]
    figure = _figures(report.model_copy(update={"trials": trials}))["cost"]
    assert sorted(x for trace in figure["data"] for x in trace["x"]) == [trial.number for trial in trials]
    assert figure["layout"]["yaxis"]["title"]["text"] == "hours"
    unknown = [trial.model_copy(update={"seconds": None}) for trial in trials]
    assert "cost" not in _figures(report.model_copy(update={"trials": unknown}))
