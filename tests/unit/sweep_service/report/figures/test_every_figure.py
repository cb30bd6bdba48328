"""What holds of every figure: it can be embedded in the page, and shows the text of users as it is."""

import json
import re

import pytest

from sweep_service.report import Report
from sweep_service.report.build import build
from sweep_service.report.figures import Figure, config_styles, figure_groups
from sweep_service.report.figures.seed_dots import seed_figure
from sweep_service.report.render.html import render_html
from tests.unit.sweep_service.report.report_benchmarks import measured_inputs
from tests.unit.sweep_service.report.report_figures import MARKUP, checked, with_parts

SPACE = {"loss.beta1": [0.0, 0.5, 1.0], "loss.beta2": [0.5, 1.0], "optimizer.learning_rate": [1e-6, 1e-5]}


@pytest.fixture(scope="module")
def hostile() -> Report:
    """A report that has every figure, with markup wherever a figure shows what a user named."""
    report = build(measured_inputs(spec={"space": SPACE}, names=["aime24"]))
    table, grid = report.benchmarks, report.grid
    configs = [
        row.model_copy(update={"label": f"{MARKUP}{row.number}", "params": row.params | {"task.name": f"{MARKUP}{n}"}})
        for n, row in enumerate(report.configs)
    ]
    trials = [
        trial.model_copy(update={"benchmarks": dict.fromkeys([MARKUP] if trial.benchmarks else [], 0.5)})
        for trial in report.trials
    ]
    rows = [row.model_copy(update={"label": MARKUP}) for row in table.rows]
    columns = [column.model_copy(update={"benchmark": MARKUP}) for column in table.columns]
    cells = [cell.model_copy(update={"x": f"{MARKUP}{cell.x}"}) for cell in grid.cells]
    axis = {"x": f"task.{MARKUP}", "xs": [f"{MARKUP}{x}" for x in grid.xs], "cells": cells}
    return with_parts(
        report,
        configs=configs,
        trials=trials,
        benchmarks=table.model_copy(update={"rows": rows, "columns": columns}),
        grid=grid.model_copy(update=axis),
    )


def drawn(report: Report) -> list[Figure]:
    styles = config_styles(report)
    of_groups = [figure for group in figure_groups(report, styles).values() for figure in group.figures]
    return [*of_groups, *filter(None, [seed_figure(report, styles)])]


def test_each_group_has_its_figures_in_order(hostile: Report) -> None:
    groups = figure_groups(hostile, config_styles(hostile))
    ids = {id_: [figure["id"] for figure in group.figures] for id_, group in groups.items()}
    assert ids == {
        "curves": ["entropy", "eval/avg_at_k", "reward/mean"],
        "more": [
            "entropy-panels",
            *("completion/length_mean", "clip_fraction/low", "clip_fraction/high", "ppo_kl", "grad_norm"),
        ],
        "tokens": ["share/na_lp", "share/pa_lp", "weight_share", "ratio_share", "entropy-drivers"],
        "passes": ["eval/pass_at_k", "pass-at-k-0"],
        "values": [
            *(f"grid-{value}-{facet}" for facet in range(3) for value in ("objective", "kept")),
            *("tradeoff", "benchmark-entropy", "history"),
        ],
    }


def test_a_report_without_results_has_no_figure(report: Report) -> None:
    rows = [row.model_copy(update={"tune": None, "confirm": None}) for row in report.configs]
    assert drawn(with_parts(report, configs=rows, curves=[], grid=None, tradeoff=[])) == []


def test_user_text_is_shown_as_it_is(hostile: Report) -> None:
    for figure in checked(drawn(hostile)).values():
        assert "&lt;b&gt;x&lt;/b&gt;" in json.dumps([figure["data"], figure["layout"]]), figure["id"]


def test_every_colour_is_a_variable_of_the_style_sheet(hostile: Report) -> None:
    names = set(re.findall(r'"@(\w+)"', json.dumps(drawn(hostile))))
    assert {"ink", "card", "line", "c0", "s0"} <= names <= set(re.findall(r"--(\w+):", render_html(hostile).decode()))
