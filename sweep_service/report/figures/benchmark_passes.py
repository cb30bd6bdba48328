"""pass@k of the trained models on each benchmark, beside the model that they start from."""

from collections.abc import Mapping

from sweep_service.report.figures.figure_style import ConfigStyle, Figure, legend, scatter, text
from sweep_service.report.model import BenchmarkCell, BenchmarkRow, Report


def pass_figures(report: Report, styles: Mapping[str, ConfigStyle]) -> list[Figure]:
    """Draw one figure for each benchmark on which models were sampled more than once a problem."""
    table = report.benchmarks
    if table is None:
        return []
    figures: list[Figure] = []
    for place, column in enumerate(table.columns):
        cells = [(row, cell) for row in table.rows if (cell := row.cells[place]) and len(cell.pass_at_k) > 1]
        if column.benchmark is not None and cells:
            sizes = sorted({k for _, cell in cells for k in cell.pass_at_k})
            traces = [_line(row, cell, styles[row.config_id]) for row, cell in cells]
            figures.append(
                {
                    "id": f"pass-at-k-{place}",
                    "title": f"pass@k on {column.benchmark}",
                    "data": traces,
                    "layout": {
                        "xaxis": {"title": {"text": "k"}, "type": "log", "tickvals": sizes, "ticktext": sizes},
                        "yaxis": {"title": {"text": "pass@k"}},
                        "hovermode": "closest",
                        "legend": legend(),
                    },
                }
            )
    return figures


def _line(row: BenchmarkRow, cell: BenchmarkCell, style: ConfigStyle) -> Figure:
    colour, dash = ("@muted", "dot") if row.initial else (style.colour, style.dash)
    trace = scatter(
        "lines+markers",
        sorted(cell.pass_at_k),
        [round(cell.pass_at_k[k], 5) for k in sorted(cell.pass_at_k)],
        name=text(row.label),
        line={"color": colour, "dash": dash, "width": 2},
        hovertemplate="%{fullData.name}<br>pass@%{x}: %{y:.3f}<extra></extra>",
    )
    return trace | ({"showlegend": True} if row.initial else {"meta": {"config": row.config_id, "seed": False}})
