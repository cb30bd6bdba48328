"""pass@k of trained models beside the initial one's."""

import pytest

from sweep_service.report import Report
from sweep_service.report.build import build
from sweep_service.report.figures import config_styles, sections
from sweep_service.report.figures.benchmark_passes import pass_figures
from tests.unit.sweep_service.report.figure_checks import HOSTILE, check
from tests.unit.sweep_service.report.report_benchmarks import NAMES, measured_inputs
from tests.unit.sweep_service.report.report_sweeps import sweep_inputs


@pytest.fixture(scope="module")
def report() -> Report:
    return build(measured_inputs())


def test_each_benchmark_has_a_line_for_each_model_that_rises_with_k(report: Report) -> None:
    figures = pass_figures(report, config_styles(report))
    assert [figure["title"] for figure in figures] == [f"pass@k on {name}" for name in NAMES]
    for place, figure in enumerate(figures):
        lines = figure["data"]
        assert [line["name"] for line in lines] == [row.label for row in report.benchmarks.rows]
        assert all(line["x"] == [1, 2, 4, 8, 16] and line["y"] == sorted(line["y"]) for line in lines)
        for line, row in zip(lines, report.benchmarks.rows, strict=True):
            cell = row.cells[place]
            assert line["y"][0] == pytest.approx(cell.mean, abs=1e-5)
        assert "meta" not in lines[0]  # the initial model is no config that could be hidden
        assert lines[0]["showlegend"]


def test_the_page_has_them_only_where_something_was_measured(report: Report) -> None:
    drawn = [figure["id"] for section in sections(report, config_styles(report)) for figure in section.figures]
    assert {"pass-at-k-0", "pass-at-k-1"} <= set(drawn)
    plain = build(sweep_inputs())
    assert pass_figures(plain, config_styles(plain)) == []


def test_user_text_is_escaped(report: Report) -> None:
    table = report.benchmarks
    rows = [row.model_copy(update={"label": HOSTILE}) for row in table.rows]
    hostile = report.model_copy(update={"benchmarks": table.model_copy(update={"rows": rows})})
    check(pass_figures(hostile, config_styles(report)))
