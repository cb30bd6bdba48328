"""The panels of the report's pictures, drawn with matplotlib."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.font_manager import get_font
from matplotlib.patches import Rectangle

from sweep_service.report.facts.trial_health import ENTROPY_COLLAPSE
from sweep_service.report.figures import ConfigStyle
from sweep_service.report.figures.figure_style import TITLES, lower_fence
from sweep_service.report.figures.seed_dots import seed_rows
from sweep_service.report.model import Cell, ConfigRow, Grid, Report, ReportCurve, StageResult, TradeoffPoint
from sweep_service.sweep.labels import short_name
from sweep_service.sweep.records import Role

_COLOURS: Final = {
    "@ink": "#1b1f27", "@muted": "#8a92a0", "@c0": "#0072b2", "@c1": "#e08a00", "@c2": "#c03d7e", "@c3": "#009e73",
    "@c4": "#7a5bd0", "@c5": "#3fa9dc", "@c6": "#8a6d3b",
    "@s0": "#2f6fdb", "@s1": "#6a5fd6", "@s2": "#9a50c2", "@s3": "#c2478f", "@s4": "#d4505a", "@s5": "#d36c2a",
    "@s6": "#bd8a00",
}  # fmt: skip
"""The page's variables in its light mode."""
_LINES: Final = {
    "solid": "-",
    "dash": "--",
    "dot": ":",
    "dashdot": "-.",
    "longdash": (0, (8, 3)),
    "longdashdot": (0, (8, 3, 2, 3)),
}
_FEW: Final = 6
"""Configs of the space that are drawn where the page shows none at first: the best by their tune mean."""
_MOST_BANDS: Final = 8
"""Configs up to which bands and single seeds can be told apart."""
_MOST_NAMED: Final = 10
_CELLS: Final = "\n± half of the 95 % interval over n tune seeds"


def shown_configs(report: Report, look: Mapping[str, ConfigStyle]) -> list[ConfigRow]:
    """The configs that the page shows at first, by number; the best ones if that is none of the space."""
    space = [row for row in report.configs if Role.SPACE in row.roles]
    extra: list[ConfigRow] = []
    if not any(look[row.id].shown for row in space):
        extra = sorted(space, key=lambda row: (-row.tune.mean if row.tune else 0.0, row.number))[:_FEW]
    return sorted((row for row in report.configs if look[row.id].shown or row in extra), key=lambda row: row.number)


def draw_curves(ax: Axes, report: Report, key: str, look: Mapping[str, ConfigStyle]) -> None:
    """A metric over training: means, bands and single seeds where there is room. Lines have config ids as labels."""
    title, unit = TITLES[key]
    _dress(ax, title, unit)
    ax.set_xlabel("optimizer updates")
    rows = shown_configs(report, look)
    curves = {curve.config_id: curve for found in report.curves if found.key == key for curve in found.configs}
    drawn = [row for row in rows if row.id in curves]
    if key == "entropy":
        _collapse_zone(ax, report)
    for place, row in enumerate(drawn):
        style = look[row.id]
        colour = f"@c{place % 7}" if style.colour == "@muted" and Role.SPACE in row.roles else style.colour
        _curve(ax, curves[row.id], _COLOURS[colour], style, around=len(drawn) <= _MOST_BANDS)
    ax.set_ylim(bottom=min(0.0, *(value for row in drawn for value in curves[row.id].mean if value is not None), 0.0))


def _curve(ax: Axes, curve: ReportCurve, colour: str, style: ConfigStyle, *, around: bool) -> None:
    if around and curve.low:
        ax.fill_between(curve.steps, _gaps(curve.low), _gaps(curve.high), color=colour, alpha=0.13, linewidth=0)
    for seed in curve.seeds if around else []:
        ax.plot(seed.steps, _gaps(seed.values), color=colour, linewidth=0.5, alpha=0.3, zorder=1)
    (line,) = ax.plot(
        curve.steps, _gaps(curve.mean), color=colour, linestyle=_LINES[style.dash], linewidth=2.0, zorder=3
    )
    line.set_label(curve.config_id)


def _collapse_zone(ax: Axes, report: Report) -> None:
    starts = [row.entropy_start for row in report.configs if row.entropy_start is not None]
    if starts:
        floor = ENTROPY_COLLAPSE * sum(starts) / len(starts)
        ax.axhspan(0, floor, color="#c83c28", alpha=0.09, linewidth=0)
        ax.text(
            0.99, 0.0, "entropy collapse (below a fifth of the start)", color="#697180", fontsize=7.5,
            transform=ax.get_yaxis_transform(), ha="right", va="bottom",
        )  # fmt: skip


def facet_of_best(report: Report, grid: Grid) -> str | None:
    """The facet in which the best config lies, or the first."""
    best = report.best.config_id if report.best else None
    found = [cell.facet for cell in grid.cells if best is not None and cell.config_id == best]
    return (found or grid.facets or [None])[0]


def draw_grid(ax: Axes, report: Report, grid: Grid, facet: str | None) -> None:
    """Mean, interval and number of tune seeds in each cell; holes are hatched, the best config is framed."""
    over = f", {short_name(grid.facet)} = {facet}" if grid.facet and facet is not None else ""
    ax.set_title(literal(f"Objective (tune){over}", 60), **_TITLE)
    ax.set_xticks(range(len(grid.xs)), [literal(x, 14) for x in grid.xs], parse_math=False)
    ax.set_yticks(range(len(grid.ys)), [literal(y, 14) for y in grid.ys], parse_math=False)
    note = _CELLS if any(cell.half_width is not None for cell in grid.cells) else ""
    ax.set_xlabel(literal(short_name(grid.x), 40) + note, parse_math=False)
    ax.set_ylabel(literal(short_name(grid.y), 40), parse_math=False)
    ax.set_xlim(-0.5, len(grid.xs) - 0.5)
    ax.set_ylim(-0.5, len(grid.ys) - 0.5)
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0)
    means = [cell.mean for cell in grid.cells if cell.mean is not None]
    low, high = (lower_fence(means), max(means)) if means else (0.0, 1.0)
    best = report.best.config_id if report.best else None
    for cell in grid.cells:
        if cell.facet == facet:
            _cell(ax, cell, grid, (low, high), framed=best is not None and cell.config_id == best)


def _cell(ax: Axes, cell: Cell, grid: Grid, bounds: tuple[float, float], *, framed: bool) -> None:
    x, y = grid.xs.index(cell.x), grid.ys.index(cell.y)
    corner = (x - 0.48, y - 0.48)
    if cell.mean is None:
        ax.add_patch(Rectangle(corner, 0.96, 0.96, facecolor="none", edgecolor="#c3c8d1", hatch="///", linewidth=0))
        return
    share = max(0.0, cell.mean - bounds[0]) / ((bounds[1] - bounds[0]) or 1.0)
    red, green, blue, _ = mpl.colormaps["viridis"](share)
    edge: dict[str, Any] = {"edgecolor": "#1b1f27", "linewidth": 2.5, "zorder": 3} if framed else {"linewidth": 0}
    ax.add_patch(Rectangle(corner, 0.96, 0.96, facecolor=(red, green, blue), **edge))
    lines = [f"{cell.mean:.3f}"]
    if len(grid.xs) <= 6:
        lines += [f"± {cell.half_width:.3f}"] if cell.half_width is not None else []
        lines += [f"n = {cell.n}"]
    ink = "#1b1f27" if 0.299 * red + 0.587 * green + 0.114 * blue > 0.5 else "#ffffff"
    size = 8.5 if len(grid.xs) <= 6 else 6.5
    ax.text(x, y, "\n".join(lines), ha="center", va="center", fontsize=size, color=ink, zorder=4)


def draw_tradeoff(ax: Axes, report: Report, look: Mapping[str, ConfigStyle]) -> None:
    """Objective against retained entropy, with 95 % intervals and the Pareto front."""
    _dress(ax, "Objective against the entropy kept", "objective")
    ax.set_xlabel("entropy at the end / at the start")
    rows = {row.id: row for row in report.configs}
    front = sorted((point for point in report.tradeoff if point.on_front), key=lambda point: point.entropy_kept)
    ax.plot(
        [point.entropy_kept for point in front], [point.objective for point in front],
        color="#8a92a0", linestyle=":", linewidth=1.4, drawstyle="steps-pre", zorder=1,
    )  # fmt: skip
    for point in report.tradeoff:
        colour = _COLOURS[look[point.config_id].colour]
        ax.errorbar(
            point.entropy_kept, point.objective,
            xerr=_reach(point.entropy_kept, point.entropy_low, point.entropy_high),
            yerr=_reach(point.objective, point.objective_low, point.objective_high),
            fmt="o" if Role.SPACE in rows[point.config_id].roles else "D", color=colour, elinewidth=0.9,
            markersize=7 if point.on_front else 5, alpha=1.0 if point.on_front else 0.55, zorder=2,
        )  # fmt: skip
    for point in _named(report, rows):
        label, place = literal(rows[point.config_id].label, 30), (point.entropy_kept, point.objective)
        words = ax.annotate(label, place, (6, 4), textcoords="offset points", fontsize=7.5, color="#3c4350")
        words.set_parse_math(False)


def _named(report: Report, rows: Mapping[str, ConfigRow]) -> list[TradeoffPoint]:
    """The best config, the baseline, then the front, as far as their names do not cover each other."""
    points = report.tradeoff
    wide = _spread([point.entropy_kept for point in points])
    high = _spread([point.objective for point in points])
    order = [point for point in points if report.best and point.config_id == report.best.config_id]
    order += [p for p in points if Role.BASELINE in rows[p.config_id].roles and p not in order]
    order += sorted((p for p in points if p.on_front and p not in order), key=lambda point: -point.objective)
    order += [point for point in points if point not in order] if len(points) <= _MOST_NAMED else []
    found: list[TradeoffPoint] = []
    for point in order[:_MOST_NAMED]:
        apart = (
            abs(point.entropy_kept - other.entropy_kept) > 0.25 * wide
            or abs(point.objective - other.objective) > 0.04 * high
            for other in found
        )
        if all(apart):
            found.append(point)
    return found


def _spread(values: Sequence[float]) -> float:
    return (max(values) - min(values)) or 1.0


def _reach(value: float, low: float | None, high: float | None) -> list[list[float]] | None:
    return None if low is None or high is None else [[max(0.0, value - low)], [max(0.0, high - value)]]


def draw_seeds(ax: Axes, report: Report, look: Mapping[str, ConfigStyle]) -> None:
    """Every confirm seed, joined where it is the same one; tune seeds where nothing was confirmed."""
    rows = seed_rows(report)
    confirmed = any(row.confirm for row in rows)
    _dress(ax, "Every confirm seed" if confirmed else "Every tune seed (nothing was confirmed)", "")
    ax.set_xlabel("objective")
    ax.set_yticks(range(len(rows)), [literal(row.label, 36) for row in rows], parse_math=False)
    ax.set_ylim(len(rows) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0, labelsize=8)
    paths: dict[int, list[tuple[float, int]]] = {}
    for place, row in enumerate(rows):
        result = row.confirm if confirmed else row.tune
        if result:
            _seed_dots(ax, result, place, _COLOURS[look[row.id].colour], filled=confirmed)
            for seed in result.seeds:
                paths.setdefault(seed.seed, []).append((seed.value, place))
    for path in paths.values() if confirmed else []:
        ax.plot([x for x, _ in path], [y for _, y in path], color="#8a92a0", linewidth=0.7, alpha=0.6, zorder=1)


def _seed_dots(ax: Axes, result: StageResult, place: int, colour: str, *, filled: bool) -> None:
    values = [seed.value for seed in result.seeds]
    face = colour if filled else "none"
    ax.plot(values, [place] * len(values), "o", color=colour, markerfacecolor=face, markersize=6, zorder=3)
    ax.vlines(result.mean, place - 0.25, place + 0.25, color=colour, linewidth=2.5, zorder=2)


_TITLE: Final[dict[str, Any]] = {"loc": "left", "fontsize": 11, "fontweight": "bold", "parse_math": False}


def _dress(ax: Axes, title: str, unit: str) -> None:
    ax.set_title(title, **_TITLE)
    ax.set_ylabel(unit)
    ax.grid(color="#eaecf0")
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)


def _gaps(values: Sequence[float | None]) -> list[float]:
    return [float("nan") if value is None else value for value in values]


def literal(value: str, most: int | None = None) -> str:
    """A user's text without control characters and letters that the font lacks, cut at `most`.

    Where it is drawn, `parse_math` must be off: a dollar sign would start a formula.
    """
    clean = "".join(_letter(letter) for letter in value)
    return clean if most is None or len(clean) <= most else clean[: most - 1] + "…"


@lru_cache(maxsize=4096)
def _letter(letter: str) -> str:
    if not letter.isprintable():
        return " "
    return letter if _font().get_char_index(ord(letter)) else "\N{WHITE SQUARE}"


@lru_cache
def _font() -> Any:
    return get_font(str(Path(mpl.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"))
