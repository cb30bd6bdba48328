"""The report's overview as one picture, PNG or SVG: for chats, slides and MLflow. Drawn without a browser.

Equal reports give equal bytes. Letters are drawn as outlines, so that no font has to be installed.
"""

import io
import re
import textwrap
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Literal

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure, SubFigure
from matplotlib.font_manager import get_font
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D

from sweep_service.report.figures.figure_style import DASHES, NUM_COLOURS, TITLES, ConfigStyle, config_styles
from sweep_service.report.figures.seed_dots import seed_rows, tune_rank
from sweep_service.report.figures.value_axis import Zone, entropy_zones, value_range
from sweep_service.report.model import ConfigRow, Report
from sweep_service.sweep.records import Role

_STYLE: Final[dict[Any, Any]] = {
    "svg.hashsalt": "sweep report",
    "svg.fonttype": "path",
    "font.family": ["DejaVu Sans"],
    "font.size": 9.5,
    "axes.edgecolor": "#c3c8d1",
    "axes.labelcolor": "#4a515d",
    "xtick.color": "#4a515d",
    "ytick.color": "#4a515d",
}
_METADATA: Final[dict[str, dict[str, Any]]] = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None, "Format": None, "Type": None},
}
"""Entries of a file that matplotlib must leave out: versions and times, which differ between equal reports."""
_drawing = threading.Lock()
_WIDTH: Final = 12.5
"""Width of the picture in inches."""
_TITLE_LETTERS: Final = 112
"""Largest number of letters in a line of the verdict above the panels."""
_FOOT_LETTERS: Final = 165
"""Largest number of letters in a line of the sentence on benchmarks below the panels."""
_LEGEND_LETTERS: Final = 150
"""Largest number of letters in a line of the legend, each label's line sample included."""
_FEW: Final = 6
"""Number of configs of the space drawn where the page shows none at first: the best by their tune mean."""
_MOST_BANDS: Final = 8
"""With more configs, bands and single seeds could not be told apart, and are left out."""


def render_picture(report: Report, kind: Literal["png", "svg"]) -> bytes:
    """Draw entropy, the objective's metric over training, and every seed's objective, below the verdict.

    One picture is drawn at a time, since matplotlib's settings belong to the process.
    """
    with _drawing, mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_STYLE)
        buffer = io.BytesIO()
        _overview(report).savefig(buffer, format=kind, metadata=_METADATA[kind])
        return buffer.getvalue()


def _overview(report: Report) -> Figure:
    styles, seeds = config_styles(report), seed_rows(report)
    space = [row for row in report.configs if Role.SPACE in row.roles]
    if not any(styles[row.id].shown for row in space):  # where the page shows none at first, the best get colours
        for place, row in enumerate(sorted(space, key=tune_rank)[:_FEW]):
            styles[row.id] = replace(styles[row.id], colour=f"@c{place % NUM_COLOURS}", shown=True)
    drawn = {curve.config_id for metric in report.curves for curve in metric.configs}
    shown = [row for row in sorted(report.configs, key=lambda row: row.number) if styles[row.id].shown]
    named = [row for row in shown if row.id in drawn]
    columns = max(1, min(len(named), _LEGEND_LETTERS // (8 + max((len(row.label) for row in named), default=1))))
    heights = [4.9 + 0.22 * -(-len(named) // columns), 1.1 + 0.3 * len(seeds) + 0.45 * (report.benchmarks is not None)]
    figure = Figure(figsize=(_WIDTH, sum(heights)), dpi=110, layout=ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.07))
    FigureCanvasAgg(figure)
    grid = figure.add_gridspec(2, 1, height_ratios=heights)
    above, below = figure.add_subfigure(grid[0]), figure.add_subfigure(grid[1])
    entropy, accuracy = above.subplots(1, 2)
    _draw_curves(entropy, report, "entropy", styles)
    by_name = {"pass": "eval/pass_at_k", "mean reward": "eval/reward_mean"}
    _draw_curves(accuracy, report, by_name.get(report.objective.partition("@")[0], "eval/avg_at_k"), styles)
    _draw_seeds(below.subplots(), report, seeds, styles)
    _draw_legend(above, named, styles, columns)
    if report.benchmarks is not None:
        foot = textwrap.fill(literal(f"Benchmarks. {report.benchmarks.sentence}"), _FOOT_LETTERS)
        below.supxlabel(foot, x=0.01, ha="left", fontsize=9.5, parse_math=False)
    lead = f"{report.sweep.name}: {'interim. ' if report.interim else ''}"
    title = textwrap.fill(literal(lead + report.verdict.sentence), _TITLE_LETTERS)
    above.suptitle(title, x=0.01, ha="left", fontsize=12.5, fontweight="bold", parse_math=False)
    return figure


def _draw_curves(ax: Axes, report: Report, key: str, styles: Mapping[str, ConfigStyle]) -> None:
    """Draw a metric over training: means, and where there is room the bands of the means and single seeds."""
    title, unit = TITLES[key]
    _dress(ax, title)
    ax.set_ylabel(unit)
    ax.set_xlabel("optimizer updates (thick lines: means over seeds)")
    metric = report.curves_of(key)
    curves = [curve for curve in metric.configs if styles[curve.config_id].shown] if metric else []
    around = len(curves) <= _MOST_BANDS
    for curve in sorted(curves, key=lambda curve: curve.config_id):
        style = styles[curve.config_id]
        colour = _colour(style)
        if around and curve.low:
            ax.fill_between(curve.steps, _gaps(curve.low), _gaps(curve.high), color=colour, alpha=0.13, linewidth=0)
        for seed in curve.seeds if around else []:
            ax.plot(seed.steps, _gaps(seed.values), color=colour, linewidth=0.5, alpha=0.3, zorder=1)
        ax.plot(curve.steps, _gaps(curve.mean), color=colour, linestyle=_dashes(style), linewidth=2.0, zorder=3)
    zones = entropy_zones(report, curves) if key == "entropy" else []
    for zone in zones:
        _draw_zone(ax, zone)
    ax.set_xlim(left=0)
    ax.set_ylim(*value_range(curves, zones).ends)
    if not curves:
        _say_empty(ax)


def _draw_zone(ax: Axes, zone: Zone) -> None:
    ax.axhspan(zone.low, zone.high, color="#c83c28", alpha=0.09, linewidth=0)
    ax.text(
        0.99, zone.high if zone.at_top else zone.low, zone.words, color="#697180", fontsize=8,
        transform=ax.get_yaxis_transform(), ha="right", va="top" if zone.at_top else "bottom",
    )  # fmt: skip


def _draw_seeds(ax: Axes, report: Report, rows: Sequence[ConfigRow], styles: Mapping[str, ConfigStyle]) -> None:
    """Draw every confirm seed as a dot and join equal seeds; draw tune seeds if nothing was confirmed."""
    confirmed = any(row.confirm for row in rows)
    _dress(ax, "Every confirm seed (bars: means)" if confirmed else "Every tune seed (nothing was confirmed)")
    ax.set_xlabel(literal(f"objective: {report.objective}"), parse_math=False)
    ax.set_yticks(range(len(rows)), [literal(row.label, 48) for row in rows], parse_math=False)
    ax.set_ylim(len(rows) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)
    paths: dict[int, list[tuple[float, int]]] = {}
    for place, row in enumerate(rows):
        result = row.confirm if confirmed else row.tune
        if result:
            colour, values = _colour(styles[row.id]), [seed.value for seed in result.seeds]
            face = colour if confirmed else "none"
            ax.plot(values, [place] * len(values), "o", color=colour, markerfacecolor=face, markersize=6.5, zorder=3)
            ax.vlines(result.mean, place - 0.3, place + 0.3, color=colour, linewidth=2.5, zorder=2)
            for seed in result.seeds:
                paths.setdefault(seed.seed, []).append((seed.value, place))
    for path in paths.values() if confirmed else []:
        ax.plot([x for x, _ in path], [y for _, y in path], color="#8a92a0", linewidth=0.7, alpha=0.6, zorder=1)
    if not rows:
        _say_empty(ax)


def _draw_legend(figure: SubFigure, rows: Sequence[ConfigRow], styles: Mapping[str, ConfigStyle], columns: int) -> None:
    """Name the lines below the curves. Texts are set afterwards: matplotlib leaves out a label that starts with `_`."""
    lines = [
        Line2D([], [], color=_colour(styles[row.id]), linestyle=_dashes(styles[row.id]), linewidth=2) for row in rows
    ]
    legend = figure.legend(lines, ["-"] * len(lines), loc="outside lower center", ncols=columns, frameon=False)
    for words, row in zip(legend.get_texts(), rows, strict=True):
        words.set_parse_math(False)
        words.set_text(literal(row.label, 48))


def _dress(ax: Axes, title: str) -> None:
    ax.set_title(title, loc="left", fontsize=11, fontweight="bold")
    ax.grid(color="#eaecf0")
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)


def _say_empty(ax: Axes) -> None:
    ax.set_xticks([])
    ax.set_yticks([])
    ax.text(0.5, 0.5, "no results", color="#697180", transform=ax.transAxes, ha="center", va="center")


def _gaps(values: Sequence[float | None]) -> list[float]:
    return [float("nan") if value is None else value for value in values]


def _dashes(style: ConfigStyle) -> Any:
    """Return the line style for matplotlib, which counts dashes in widths of the line."""
    pattern = DASHES[style.dash]
    return (0, tuple(length / 3 for length in pattern)) if pattern else "-"


@lru_cache
def _colour(style: ConfigStyle) -> str:
    """Return the colour that the page has in its light mode."""
    light = (Path(__file__).parent / "page" / "page.css").read_text().partition("@media")[0]
    return dict(re.findall(r"--(\w+): (#\w{6});", light))[style.colour.removeprefix("@")]


def literal(value: str, most: int | None = None) -> str:
    """Return a user's text without control characters and letters that the font lacks, cut at `most` letters.

    Where it is drawn, `parse_math` must be off: a dollar sign would start a formula.
    """
    clean = "".join(_letter(letter) for letter in value)
    return clean if most is None or len(clean) <= most else clean[: most - 1] + "…"


@lru_cache(maxsize=4096)
def _letter(letter: str) -> str:
    if not letter.isprintable():
        return " "
    font = get_font(str(Path(mpl.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"))  # kept by matplotlib
    return letter if font.get_char_index(ord(letter)) else "\N{WHITE SQUARE}"
