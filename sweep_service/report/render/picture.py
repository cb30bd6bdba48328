"""The report's main figures as PNG and SVG: for Markdown, MLflow and slides. Needs no browser.

Equal reports give equal bytes; letters are drawn as outlines, so that no font has to be there.
"""

import io
import textwrap
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from sweep_service.report.figures import ConfigStyle, looks
from sweep_service.report.model import Report
from sweep_service.report.render.picture_panels import (
    draw_curves,
    draw_grid,
    draw_seeds,
    draw_tradeoff,
    facet_of_best,
    literal,
    shown_configs,
)

_STYLE: Final[dict[Any, Any]] = {
    "svg.hashsalt": "sweep report",
    "svg.fonttype": "path",
    "font.family": ["DejaVu Sans"],
    "font.size": 9,
}
_drawing = threading.Lock()
_SENTENCE: Final = 112
"""Letters a line of the verdict above the figure."""
_MOST_FACETS: Final = 6
"""With more of them only the one with the best config is drawn."""
_METADATA: Final[dict[str, dict[str, Any]]] = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None, "Format": None, "Type": None},
}


def render_png(report: Report) -> bytes:
    """The verdict, entropy, validation accuracy, the grid (or reward over training), and every seed."""
    return _drawn(lambda: _overview(report), "png")


def render_svg(report: Report) -> bytes:
    """The same picture as `render_png`."""
    return _drawn(lambda: _overview(report), "svg")


def figure_svgs(report: Report) -> dict[str, bytes]:
    """Each main figure alone, by file name; those without data are left out."""
    makers: dict[str, Callable[[], Figure | None]] = {
        "entropy.svg": lambda: _curves_alone(report, "entropy"),
        "accuracy.svg": lambda: _curves_alone(report, "eval/avg_at_k"),
        "heatmap.svg": lambda: _grids_alone(report),
        "tradeoff.svg": lambda: _tradeoff_alone(report),
        "seeds.svg": lambda: _seeds_alone(report),
    }
    drawn = {name: _drawn(make, "svg") for name, make in makers.items()}
    return {name: content for name, content in drawn.items() if content}


def _drawn(make: Callable[[], Figure | None], kind: Literal["png", "svg"]) -> bytes:
    """What was made as a file; nothing if nothing was made. One at a time: matplotlib's settings are the process's."""
    with _drawing, mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_STYLE)
        figure = make()
        if figure is None:
            return b""
        buffer = io.BytesIO()
        figure.savefig(buffer, format=kind, metadata=_METADATA[kind])
        return buffer.getvalue()


def _figure(width: float, height: float) -> Figure:
    figure = Figure(figsize=(width, height), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _overview(report: Report) -> Figure:
    figure = _figure(13, 9)
    axes = figure.subplots(2, 2)
    look = looks(report)
    draw_curves(axes[0, 0], report, "entropy", look)
    draw_curves(axes[0, 1], report, "eval/avg_at_k", look)
    if report.grid is not None:
        draw_grid(axes[1, 0], report, report.grid, facet_of_best(report, report.grid))
    else:
        draw_curves(axes[1, 0], report, "reward/mean", look)
    draw_seeds(axes[1, 1], report, look)
    _legend(figure, axes[0, 0], report, look, columns=5)
    lead = "Interim. " if report.interim else ""
    sentence = textwrap.fill(literal(lead + report.verdict.sentence), _SENTENCE)
    figure.suptitle(sentence, fontsize=12, fontweight="bold", parse_math=False)
    return figure


def _curves_alone(report: Report, key: str) -> Figure | None:
    if all(found.key != key for found in report.curves):
        return None
    figure, look = _figure(9, 5.2), looks(report)
    axes = figure.subplots()
    draw_curves(axes, report, key, look)
    _legend(figure, axes, report, look, columns=4)
    return figure


def _grids_alone(report: Report) -> Figure | None:
    grid = report.grid
    if grid is None:
        return None
    facets = grid.facets if len(grid.facets) <= _MOST_FACETS else []
    facets = facets or [facet_of_best(report, grid)]
    columns = min(3, len(facets))
    rows = -(-len(facets) // columns)
    wide, high = max(3.6, 0.85 * len(grid.xs) + 1.2), max(3.0, 0.75 * len(grid.ys) + 1.2)
    figure = _figure(columns * wide, rows * high)
    axes = figure.subplots(rows, columns, squeeze=False)
    for place, ax in enumerate(axes.flat):
        if place < len(facets):
            draw_grid(ax, report, grid, facets[place])
        else:
            ax.set_visible(False)
    return figure


def _tradeoff_alone(report: Report) -> Figure | None:
    if not report.tradeoff:
        return None
    figure, look = _figure(7.5, 5.6), looks(report)
    draw_tradeoff(figure.subplots(), report, look)
    return figure


def _seeds_alone(report: Report) -> Figure | None:
    if all(row.confirm is None and row.tune is None for row in report.configs):
        return None
    figure, look = _figure(9, 5.2), looks(report)
    draw_seeds(figure.subplots(), report, look)
    return figure


def _legend(figure: Figure, axes: Axes, report: Report, look: Mapping[str, ConfigStyle], columns: int) -> None:
    """Below the panels. Texts are set after it is made: matplotlib would leave out a label that starts with `_`."""
    labels = {row.id: row.label for row in shown_configs(report, look)}
    lines = [line for line in axes.get_lines() if line.get_label() in labels]
    if not lines:
        return
    legend = figure.legend(lines, ["-"] * len(lines), loc="outside lower center", ncols=columns, frameon=False)
    for words, line in zip(legend.get_texts(), lines, strict=True):
        words.set_parse_math(False)
        words.set_text(literal(labels[str(line.get_label())], 44))
