"""Every seed as a dot, with lines to its pair."""

import textwrap
from collections.abc import Mapping, Sequence
from math import inf
from typing import Final

from sweep_service.report.figures.figure_style import ConfigStyle, Figure, lower_fence, scatter, text, with_gaps
from sweep_service.report.formatting import count
from sweep_service.report.model import ConfigRow, Report, StageResult
from sweep_service.sweep.records import Role, Stage

MOST_ROWS: Final = 12
"""Number of configs of the space shown where nothing was confirmed: the best by their tune mean."""
_LABEL_WIDTH: Final = 20
"""Largest number of letters in a line of a label; a longer word is cut."""
_MARGINS: Final = 84
"""Height in pixels of the x axis and of the room around the plot."""
_ROW: Final = 32
"""Least height of a config's row in pixels."""
_LINE: Final = 15
"""Height of a line of a label in pixels."""
_APART: Final = 0.17
"""Distance of tune and confirm seeds from the middle of their config's row, in rows."""
_FAR: Final = 4.0
"""A seed at the left edge lies this many widths below the seeds of the best config and of the comparators."""


def seed_figure(report: Report, styles: Mapping[str, ConfigStyle]) -> Figure | None:
    """Draw every seed's objective as a dot, a row for each config; lines join the same confirm seed across configs."""
    rows = seed_rows(report)
    if not rows:
        return None
    edge = _edge(report, rows)
    traces = _pair_lines(rows, edge)
    for position, row in enumerate(rows):
        for stage, result, offset in ((Stage.TUNE, row.tune, -_APART), (Stage.CONFIRM, row.confirm, _APART)):
            if result:
                y = position + (offset if row.confirm else 0)
                traces += _dots(row, result, stage, y, styles[row.id], edge)
    labels = [wrapped(row.label) for row in rows]
    layout: Figure = {
        "xaxis": {"title": {"text": "objective"}, "zeroline": False},
        "yaxis": {
            "tickvals": list(range(len(rows))),
            "ticktext": ["<br>".join(map(text, lines)) for lines in labels],
            "range": [len(rows) - 0.5, -0.5],
            "showgrid": False,
            "zeroline": False,
            "fixedrange": True,
        },
        "hovermode": "closest",
    }
    height = _MARGINS + len(rows) * max(_ROW, 6 + _LINE * max(map(len, labels)))
    figure: Figure = {"id": "seeds", "title": "Every seed", "note": _note(report, rows, edge)}
    return figure | {"data": traces, "layout": layout, "height": height, "wide": True}


def wrapped(label: str) -> list[str]:
    """Break a config's label into lines between parameters, so that it stays readable on a phone."""
    words = (word if len(word) <= _LABEL_WIDTH else word[: _LABEL_WIDTH - 1] + "…" for word in label.split(" "))
    return textwrap.wrap(" ".join(words), _LABEL_WIDTH, break_on_hyphens=False)


def seed_rows(report: Report) -> list[ConfigRow]:
    """Return the configs whose seeds are shown, comparators first.

    If any are confirmed, only these, because a collapsed config would press the others onto one line. Otherwise the
    comparators and the best of the space.
    """
    rows = [row for row in report.configs if row.confirm]
    if not rows:
        tuned = [row for row in report.configs if row.tune]
        space = sorted((row for row in tuned if Role.SPACE in row.roles), key=tune_rank)[:MOST_ROWS]
        rows = [row for row in tuned if Role.SPACE not in row.roles] + space
    return sorted(rows, key=lambda row: (Role.BASELINE not in row.roles, Role.SPACE not in row.roles))


def tune_rank(row: ConfigRow) -> tuple[float, int]:
    """Return a key that sorts configs by tune mean, the best first."""
    return (-row.tune.mean if row.tune else 0.0, row.number)


def _edge(report: Report, rows: Sequence[ConfigRow]) -> float:
    """Return the objective below which seeds stand at the left edge, so that one bad config does not press the others
    together; minus infinity if all have room.
    """
    best = report.best.config_id if report.best else None
    values_of = {
        row.id: [seed.value for stage in (row.tune, row.confirm) if stage for seed in stage.seeds] for row in rows
    }
    central = [value for row in rows if row.id == best or Role.SPACE not in row.roles for value in values_of[row.id]]
    if not central:
        return -inf
    low, high = lower_fence(central), max(central)
    values = [value for own in values_of.values() for value in own]
    near = [value for value in values if value >= low - _FAR * (high - low)]
    return min(near) - 0.08 * (max(near) - min(near)) if high > low and len(near) < len(values) else -inf


def _note(report: Report, rows: Sequence[ConfigRow], edge: float) -> str:
    far = "" if edge == -inf else " A triangle at the left edge lies further left; the pointer shows its number."
    if any(row.confirm for row in rows):
        return (
            "A filled point is a run on a confirm seed, a ring one on a tune seed; a bar is the mean of the points, "
            f"a thin one above it that of the rings. Grey lines join the runs on the same confirm seed.{far}"
        )
    left = sum(1 for row in report.configs if row.tune) - len(rows)
    shown = f" {count(left, 'config')} with a lower tune mean left out." if left else ""
    return (
        "A ring is a run on a tune seed; these seeds also chose the best, and nothing was confirmed. A bar marks a "
        f"mean.{shown}{far}"
    )


def _pair_lines(rows: Sequence[ConfigRow], edge: float) -> list[Figure]:
    paths: dict[int, list[tuple[float, float]]] = {}
    for position, row in enumerate(rows):
        for seed in row.confirm.seeds if row.confirm else []:
            paths.setdefault(seed.seed, []).append((max(seed.value, edge), position + _APART))
    if not paths:
        return []
    lines = with_gaps(([x for x, _ in path], [y for _, y in path]) for _, path in sorted(paths.items()))
    return [scatter("lines", *lines, hoverinfo="skip", line={"color": "@muted", "width": 1}, opacity=0.5)]


def _dots(row: ConfigRow, result: StageResult, stage: Stage, y: float, style: ConfigStyle, edge: float) -> list[Figure]:
    symbol = "circle" if stage is Stage.CONFIRM else "circle-open"
    values = [seed.value for seed in result.seeds]
    dots = scatter(
        "markers",
        [max(value, edge) for value in values],
        [y] * len(values),
        marker={
            "color": style.colour,
            "size": 9,
            "symbol": [symbol if value >= edge else symbol.replace("circle", "triangle-left") for value in values],
            "opacity": 0.9,
        },
        text=text(row.label),
        customdata=[[seed.seed, seed.value] for seed in result.seeds],
        hovertemplate=f"%{{text}}<br>{stage} seed %{{customdata[0]}}: %{{customdata[1]:.3f}}<extra></extra>",
    )
    if result.mean < edge:
        return [dots]
    line = {"color": style.colour, "width": 3 if stage is Stage.CONFIRM else 1.5}
    return [dots, scatter("lines", [result.mean, result.mean], [y - 0.15, y + 0.15], line=line, hoverinfo="skip")]
