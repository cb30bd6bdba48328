"""pass@k of trained models beside the initial one's."""

import pytest

from sweep_service.report import Report
from sweep_service.report.figures import config_styles
from sweep_service.report.figures.benchmark_passes import pass_figures
from tests.unit.sweep_service.report.report_benchmarks import NAMES


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
