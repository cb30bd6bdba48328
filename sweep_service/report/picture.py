"""The report's main figure as a PNG: for Markdown, MLflow and slides. Needs no browser."""

import io
from typing import Final

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from sweep_service.records import Role
from sweep_service.report.figures.common import TITLES, Look, looks
from sweep_service.report.model import Report

_COLOURS: Final = {
    "@ink": "#1b1f27", "@muted": "#8a92a0", "@c0": "#0072b2", "@c1": "#e08a00", "@c2": "#c03d7e", "@c3": "#009e73",
    "@c4": "#7a5bd0", "@c5": "#3fa9dc", "@c6": "#8a6d3b",
    "@s0": "#2f6fdb", "@s1": "#6a5fd6", "@s2": "#9a50c2", "@s3": "#c2478f", "@s4": "#d4505a", "@s5": "#d36c2a",
    "@s6": "#bd8a00",
}  # fmt: skip
_LINES: Final = {
    "solid": "-",
    "dash": "--",
    "dot": ":",
    "dashdot": "-.",
    "longdash": (0, (8, 3)),
    "longdashdot": (0, (8, 3, 2, 3)),
}
_PANELS: Final = ("entropy", "eval/avg_at_k", "reward/mean")


def render_png(report: Report) -> bytes:
    """Entropy, validation accuracy, reward over training, and every confirm seed. Equal reports give equal bytes."""
    figure = Figure(figsize=(12, 8), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(2, 2)
    look = looks(report)
    for key, ax in zip(_PANELS, axes.flat, strict=False):
        _curves(ax, report, key, look)
    _seeds(axes[1, 1], report, look)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    if handles:
        figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    figure.suptitle(_literal(report.verdict.sentence), fontsize=12, fontweight="bold", wrap=True)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", metadata={"Software": None})
    return buffer.getvalue()


def _curves(ax: Axes, report: Report, key: str, look: dict[str, Look]) -> None:
    title, unit = TITLES[key]
    _dress(ax, title, unit)
    ax.set_xlabel("optimizer updates")
    rows = {row.id: row for row in report.configs}
    for found in report.curves:
        for curve in found.configs if found.key == key else []:
            style = look[curve.config_id]
            if not style.shown:
                continue
            colour, order = _COLOURS[style.colour], rows[curve.config_id].number
            for seed in curve.seeds:
                ax.plot(seed.steps, _with_gaps(seed.values), color=colour, linewidth=0.6, alpha=0.35, zorder=1)
            label = _literal(rows[curve.config_id].label)
            ax.plot(
                curve.steps, _with_gaps(curve.mean), color=colour, linestyle=_LINES[style.dash], linewidth=2.2,
                label=label, zorder=2 + order,
            )  # fmt: skip
    ax.set_ylim(bottom=0)


def _seeds(ax: Axes, report: Report, look: dict[str, Look]) -> None:
    rows = [row for row in report.configs if row.confirm]
    rows.sort(key=lambda row: (Role.BASELINE not in row.roles, Role.SPACE not in row.roles))
    _dress(ax, "Every confirm seed", "objective")
    ax.set_xticks(range(len(rows)), [_literal(row.label).replace(" ", "\n") for row in rows])
    paths: dict[int, list[tuple[int, float]]] = {}
    for position, row in enumerate(rows):
        assert row.confirm is not None
        colour = _COLOURS[look[row.id].colour]
        for seed in row.confirm.seeds:
            paths.setdefault(seed.seed, []).append((position, seed.value))
            ax.plot(position, seed.value, "o", color=colour, markersize=6, zorder=3)
        ax.hlines(row.confirm.mean, position - 0.18, position + 0.18, color=colour, linewidth=2.5, zorder=2)
    for path in paths.values():
        ax.plot([x for x, _ in path], [y for _, y in path], color="#8a92a0", linewidth=0.7, alpha=0.6, zorder=1)


def _dress(ax: Axes, title: str, unit: str) -> None:
    ax.set_title(title, loc="left", fontsize=11, fontweight="bold")
    ax.set_ylabel(unit)
    ax.grid(color="#eaecf0")
    ax.spines[["top", "right"]].set_visible(False)


def _with_gaps(values: list[float | None]) -> list[float]:
    return [float("nan") if value is None else value for value in values]


def _literal(value: str) -> str:
    """A user's text as matplotlib shows it literally: a dollar sign would start a formula."""
    return value.replace("$", r"\$")
