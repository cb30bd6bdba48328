"""Results in the order of the search."""

from typing import Any

import pytest

from sweep_service.report import Report
from sweep_service.report.build import build
from sweep_service.report.figures import config_styles
from sweep_service.report.figures.search_course import search_figures
from tests.unit.sweep_service.report.report_figures import checked
from tests.unit.sweep_service.report.report_sweeps import sweep_inputs

SPACE = {"loss.beta1": [0.0, 0.5, 1.0], "loss.beta2": [0.5, 1.0], "optimizer.learning_rate": [1e-6, 1e-5, 1e-4]}


@pytest.fixture(scope="module")
def report() -> Report:
    return build(sweep_inputs({"space": SPACE}, confirmed=False))


def _drawn(report: Report) -> Report:
    """The report with a parameter of another value in each config: no grid any more."""
    rows = [row.model_copy(update={"params": row.params | {"x.drawn": n / 10}}) for n, row in enumerate(report.configs)]
    return report.model_copy(update={"configs": rows})


def _figures(report: Report) -> list[dict[str, Any]]:
    return [*checked(search_figures(report, config_styles(report))).values()]


def test_the_best_so_far_never_falls_and_a_grid_has_no_order(report: Report) -> None:
    assert _figures(report) == []
    (figure,) = _figures(_drawn(report))
    best, dots = figure["data"]
    assert best["y"] == sorted(best["y"])
    assert best["y"][-1] == max(dots["y"])
    assert best["x"] == dots["x"] == sorted(dots["x"])
    assert len(dots["y"]) == 18


def test_few_configs_have_no_order(report: Report) -> None:
    drawn = _drawn(report)
    assert _figures(drawn.model_copy(update={"configs": drawn.configs[:9]})) == []
