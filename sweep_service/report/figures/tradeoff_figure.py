"""The objective against the entropy that is left, with the Pareto front, and each config's path there."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from sweep_service.report.figures.figure_style import ConfigStyle, Figure, lower_fence, text
from sweep_service.report.model import ConfigRow, CurveSet, Report, TradeoffPoint
from sweep_service.sweep.records import Role

_KEPT: Final = "entropy at the end / at the start"
_MOST_NAMED: Final = 8
_WIDTH: Final = 420
_HEIGHT: Final = 260
_LETTER: Final = 6
_LINE: Final = 13
_EDGE: Final = 20
"""Pixels of a plot of usual size: between its outmost points, of a letter, of a line, and beyond the outmost points."""


def tradeoff_figures(report: Report, look: Mapping[str, ConfigStyle]) -> list[Figure]:
    """The objective against the entropy that is left, with the Pareto front, and each config's path there."""
    return [*_front_figure(report, look), *_path_figure(report, look)]


def _front_figure(report: Report, look: Mapping[str, ConfigStyle]) -> list[Figure]:
    """Points in the plane; those far below all others stand at the lower edge, as triangles."""
    if not report.tradeoff:
        return []
    rows = {row.id: row for row in report.configs}
    points = sorted(report.tradeoff, key=lambda point: (point.on_front, -rows[point.config_id].number))
    objectives = [point.objective for point in points]
    lowest = lower_fence(objectives)
    edge = _edge([point for point in points if point.objective >= lowest])
    front = sorted((point for point in points if point.on_front), key=lambda point: point.entropy_kept)
    line: Figure = {
        "type": "scatter",
        "mode": "lines",
        "x": [point.entropy_kept for point in front],
        "y": [max(point.objective, edge) for point in front],
        "line": {"color": "@muted", "width": 1.5, "dash": "dot", "shape": "vh"},
        "hoverinfo": "skip",
    }
    others = [point for point in points if not look[point.config_id].shown]
    traces = [line, *([_cloud(others, rows, edge)] if others else [])]
    traces += [_point(point, rows[point.config_id], look[point.config_id], edge) for point in points]
    traces += _labels(_named(points, rows, look), points, rows, edge)
    note = (
        "Up: better; right: more of the entropy kept. Dotted: the Pareto front, of configs that no other beats in one "
        "and equals in the other; the rest is faint. Means over confirm seeds where there are any, else over tune "
        "seeds; crosses: their 95 % intervals, none for an objective on tune seeds, since they chose the best."
    )
    if min(objectives) < lowest:
        note += " Triangles at the lower edge: far below."
    layout: Figure = {
        "xaxis": {"title": {"text": _KEPT}, "zeroline": False},
        "yaxis": {"title": {"text": "objective"}, "zeroline": False},
        "hovermode": "closest",
    }
    title = "Objective against the entropy kept"
    return [{"id": "tradeoff", "title": title, "note": note, "data": traces, "layout": layout, "height": 380}]


def _edge(points: Sequence[TradeoffPoint]) -> float:
    """Where the points far below stand: under all others and their crosses."""
    low = min(point.objective if point.objective_low is None else point.objective_low for point in points)
    high = max(point.objective if point.objective_high is None else point.objective_high for point in points)
    return low - 0.08 * (high - low)


@dataclass(frozen=True)
class _Box:
    """What a name covers, in pixels of a plot of usual size."""

    left: float
    right: float
    middle: float

    def meets(self, other: "_Box") -> bool:
        """Whether the two names would cover each other."""
        return self.left < other.right and other.left < self.right and abs(self.middle - other.middle) < _LINE


def _labels(
    named: Sequence[TradeoffPoint], points: Sequence[TradeoffPoint], rows: Mapping[str, ConfigRow], lowest: float
) -> list[Figure]:
    """Names where they cover no other name; the pointer shows one that has no such place."""
    x_of = _pixels([point.entropy_kept for point in points], _WIDTH)
    y_of = _pixels([max(point.objective, lowest) for point in points], _HEIGHT)
    taken: list[_Box] = []
    made: list[Figure] = []
    for point in sorted(named, key=lambda point: (Role.BASELINE not in rows[point.config_id].roles, -point.objective)):
        label = rows[point.config_id].label
        places = _places(x_of(point.entropy_kept), y_of(max(point.objective, lowest)), len(label) * _LETTER)
        free = [(where, box) for where, box in places if not any(box.meets(other) for other in taken)]
        if free:
            where, box = free[0]
            taken.append(box)
            made.append(_label(point, label, where, lowest))
    return made


def _pixels(values: Sequence[float], size: int) -> Callable[[float], float]:
    """From a value to its place on an axis of so many pixels."""
    low, span = min(values), max(values) - min(values)
    return lambda value: size * (value - low) / (span or 1)


def _places(x: float, y: float, width: float) -> list[tuple[str, _Box]]:
    """Where a name may stand beside its point, towards the middle first."""
    sides = ("right", "left") if x < _WIDTH / 2 else ("left", "right")
    starts = {"right": x + 8, "left": x - 8 - width}
    return [
        (f"{level} {side}", _Box(starts[side], starts[side] + width, y + shift))
        for side in sides
        for level, shift in (("top", _LINE), ("bottom", -_LINE), ("middle", 0))
        if starts[side] > -_EDGE and starts[side] + width < _WIDTH + _EDGE
    ]


def _label(point: TradeoffPoint, label: str, where: str, lowest: float) -> Figure:
    return {
        "type": "scatter",
        "mode": "text",
        "x": [point.entropy_kept],
        "y": [max(point.objective, lowest)],
        "text": [f"  {text(label)}  "],
        "textposition": where,
        "textfont": {"size": 11, "color": "@ink"},
        "hoverinfo": "skip",
        "meta": {"config": point.config_id, "seed": False},
    }


def _named(
    points: Sequence[TradeoffPoint], rows: Mapping[str, ConfigRow], look: Mapping[str, ConfigStyle]
) -> list[TradeoffPoint]:
    """Few configs: all of them. Many: the front, if that is few, and the baseline."""
    drawn = [point for point in points if look[point.config_id].shown]
    if len(drawn) <= _MOST_NAMED:
        return drawn
    few = sum(point.on_front for point in drawn) <= _MOST_NAMED
    return [point for point in drawn if (few and point.on_front) or Role.BASELINE in rows[point.config_id].roles]


def _cloud(points: Sequence[TradeoffPoint], rows: Mapping[str, ConfigRow], lowest: float) -> Figure:
    """The configs that are not shown at first, as small dots."""
    return {
        "type": "scatter",
        "mode": "markers",
        "x": [point.entropy_kept for point in points],
        "y": [max(point.objective, lowest) for point in points],
        "marker": {"size": 5, "color": "@muted", "symbol": [_symbol(point, lowest) for point in points]},
        "opacity": 0.45,
        "text": [_hover(point, rows[point.config_id]) for point in points],
        "hovertemplate": "%{text}<extra></extra>",
    }


def _symbol(point: TradeoffPoint, lowest: float) -> str:
    return "circle" if point.objective >= lowest else "triangle-down"


def _point(point: TradeoffPoint, row: ConfigRow, look: ConfigStyle, lowest: float) -> Figure:
    inside = point.objective >= lowest
    up = _bars(point.objective, point.objective_low, point.objective_high, look) if inside else {"visible": False}
    symbol = _symbol(point, lowest) if Role.SPACE in row.roles or not inside else "diamond"
    return {
        "type": "scatter",
        "mode": "markers",
        "x": [point.entropy_kept],
        "y": [max(point.objective, lowest)],
        "marker": {"size": 11 if point.on_front else 8, "color": look.colour, "symbol": symbol},
        "error_x": _bars(point.entropy_kept, point.entropy_low, point.entropy_high, look),
        "error_y": up,
        "opacity": 1 if point.on_front else 0.4,
        "text": [_hover(point, row)],
        "hovertemplate": "%{text}<extra></extra>",
        "meta": {"config": row.id, "seed": False},
    }


def _bars(value: float, low: float | None, high: float | None, look: ConfigStyle) -> Figure:
    if low is None or high is None:
        return {"visible": False}
    return {
        "type": "data", "symmetric": False, "array": [high - value], "arrayminus": [value - low],
        "color": look.colour, "thickness": 1.2, "width": 0,
    }  # fmt: skip


def _hover(point: TradeoffPoint, row: ConfigRow) -> str:
    return (
        f"<b>{text(row.label)}</b><br>objective {point.objective:.3f}<br>entropy kept {point.entropy_kept:.2f}"
        f"<br>{point.n} seeds"
    )


def _path_figure(report: Report, look: Mapping[str, ConfigStyle]) -> list[Figure]:
    """Where each config stood at each evaluation."""
    sets = {curves.key: curves for curves in report.curves if curves.key in ("entropy", "eval/avg_at_k")}
    if len(sets) < 2:
        return []
    rows = sorted(report.configs, key=lambda row: row.number)
    paths = [(row, _path(row, sets["entropy"], sets["eval/avg_at_k"])) for row in rows]
    traces = [_path_trace(row, path, look[row.id]) for row, path in paths if len(path) > 1]
    if not traces:
        return []
    layout: Figure = {
        "xaxis": {"title": {"text": "entropy / entropy at the start"}, "zeroline": False},
        "yaxis": {"title": {"text": "validation avg@k"}, "zeroline": False},
        "hovermode": "closest",
    }
    note = "A dot an evaluation, growing with the updates; the arrow is the last. Means over seeds."
    title = "The way there: accuracy against entropy"
    return [{"id": "tradeoff-path", "title": title, "note": note, "data": traces, "layout": layout, "height": 380}]


def _path(row: ConfigRow, entropy: CurveSet, accuracy: CurveSet) -> list[tuple[int, float, float]]:
    """Step, entropy divided by its start, and accuracy at each evaluation; entropy is read between its points."""
    entropies = next((curve for curve in entropy.configs if curve.config_id == row.id), None)
    accuracies = next((curve for curve in accuracy.configs if curve.config_id == row.id), None)
    if entropies is None or accuracies is None or not row.entropy_start:
        return []
    known = [(step, value) for step, value in zip(entropies.steps, entropies.mean, strict=True) if value is not None]
    at = [(step, value) for step, value in zip(accuracies.steps, accuracies.mean, strict=True) if value is not None]
    if not known or not at:
        return []
    found = np.interp([step for step, _ in at], [step for step, _ in known], [value for _, value in known])
    return [
        (step, float(f"{share:.4g}"), value) for (step, value), share in zip(at, found / row.entropy_start, strict=True)
    ]


def _path_trace(row: ConfigRow, path: Sequence[tuple[int, float, float]], look: ConfigStyle) -> Figure:
    last = len(path) - 1
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "x": [share for _, share, _ in path],
        "y": [value for _, _, value in path],
        "customdata": [step for step, _, _ in path],
        "name": text(row.label),
        "line": {"color": look.colour, "width": 1.6, "dash": look.dash},
        "marker": {
            "color": look.colour,
            "line": {"width": 0},
            "opacity": 1,
            "size": [round(3 + 4 * place / last, 1) for place in range(last)] + [13],
            "symbol": ["circle"] * last + ["arrow"],
            "angleref": "previous",
        },
        "hovertemplate": "%{fullData.name}<br>update %{customdata}: avg@k %{y:.3f}, "
        "entropy %{x:.2f} of its start<extra></extra>",
        "meta": {"config": row.id, "seed": False},
    }
