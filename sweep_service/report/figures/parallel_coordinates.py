"""Parallel coordinates of the varied parameters and what came of them: a line a config.

Drawn with ordinary lines, not with plotly's own trace: that one needs code evaluation, which the page's
content-security-policy forbids.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from sweep_service.report.figures.figure_style import Figure, text
from sweep_service.report.formatting import NOTHING
from sweep_service.report.model import ConfigRow, Report
from sweep_service.sweep.labels import short_name, value_text
from sweep_service.sweep.records import Role

_FEWEST: Final = 3
"""Configs below which a table says more."""
_MOST_TICKS: Final = 7
_LOG_FROM: Final = 15.0
"""Largest over smallest value from which an axis is logarithmic."""
_FAN: Final = 0.035
"""Share of an axis over which the lines through one value are spread, so that they do not hide each other."""
_CLASSES: Final = (
    ("the worst quarter", 1.0, {"color": "@c1", "width": 1.2}, 0.55),
    ("the middle", 0.75, {"color": "@muted", "width": 1}, 0.5),
    ("the best quarter", 0.25, {"color": "@c5", "width": 1.6}, 0.8),
    ("the best tenth", 0.1, {"color": "@c0", "width": 2.8}, 1.0),
)
"""Words, share of the configs from the best on, line, opacity; later ones are drawn over earlier ones."""


@dataclass(frozen=True)
class _Axis:
    title: str
    places: list[float]
    """Of each config, 0 to 1."""
    ticks: list[tuple[float, str]]
    texts: list[str]
    """Each config's value in words."""
    fans: bool
    """Whether many configs share a value."""


def parallel_figure(report: Report) -> Figure | None:
    """None with fewer than 3 configs of the space that have a result, or fewer than 2 varied parameters."""
    rows = [row for row in report.configs if Role.SPACE in row.roles and row.tune]
    rows.sort(key=lambda row: (-row.tune.mean if row.tune else 0.0, row.number))
    names = [name for name in dict.fromkeys(name for row in rows for name in row.params) if _varies(rows, name)]
    if len(rows) < _FEWEST or len(names) < 2:
        return None
    axes = [_parameter(name, [row.params.get(name) for row in rows]) for name in names]
    axes.append(_result("objective<br>(tune)", [row.tune.mean if row.tune else None for row in rows]))
    if any(row.entropy_kept is not None for row in rows):
        axes.append(_result("entropy<br>kept", [row.entropy_kept for row in rows]))
    return {
        "id": "parallel",
        "title": "Parameters and what came of them",
        "note": "A line a config of the space. Dark blue: the best tenth by tune mean; light blue: the best quarter; "
        "orange: the worst quarter. Lines through one value are spread a little.",
        "wide": True,
        "height": 380,
        "data": [_frame(len(axes)), *_lines(rows, axes)],
        "layout": {
            "xaxis": {
                "tickvals": list(range(len(axes))),
                "ticktext": [axis.title for axis in axes],
                "range": [-0.25, len(axes) - 0.85],
                "showgrid": False,
                "showline": False,
                "zeroline": False,
                "fixedrange": True,
            },
            "yaxis": {"visible": False, "range": [-0.06, 1.06], "fixedrange": True},
            "annotations": [note for place, axis in enumerate(axes) for note in _ticks(place, axis)],
            "hovermode": "closest",
        },
    }


def _varies(rows: Sequence[ConfigRow], name: str) -> bool:
    return len({repr(row.params.get(name)) for row in rows}) > 1


def _parameter(name: str, values: Sequence[Any]) -> _Axis:
    numbers = [float(v) for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
    title, texts = text(short_name(name)), [NOTHING if v is None else text(value_text(v)) for v in values]
    if len(numbers) < len(values):
        levels = list(dict.fromkeys(sorted(texts)))
        places = [levels.index(words) / max(1, len(levels) - 1) for words in texts]
        shown = _thinned([(i / max(1, len(levels) - 1), words[:20]) for i, words in enumerate(levels)])
        return _Axis(title, places, shown, texts, fans=True)
    if log := min(numbers) > 0 and max(numbers) / min(numbers) >= _LOG_FROM:
        title += "<br>(log)"
    scaled = [math.log(number) if log else number for number in numbers]
    low, span = min(scaled), max(scaled) - min(scaled)
    places = [(value - low) / span for value in scaled]
    distinct = sorted(dict(zip(places, numbers, strict=True)).items())
    few = len(distinct) <= _MOST_TICKS
    if not few:
        spread = [i / 4 for i in range(5)]
        distinct = [(p, math.exp(low + p * span) if log else low + p * span) for p in spread]
    return _Axis(title, places, [(p, _short(value)) for p, value in distinct], texts, fans=few)


def _short(value: float) -> str:
    return value_text(float(f"{value:.2g}"))


def _thinned(ticks: list[tuple[float, str]]) -> list[tuple[float, str]]:
    return ticks[:: -(-len(ticks) // _MOST_TICKS)]


def _result(title: str, values: Sequence[float | None]) -> _Axis:
    """A measured quantity; configs without it end at the axis before."""
    present = [value for value in values if value is not None]
    low, high = min(present), max(present)
    span = (high - low) or 1.0
    places = [math.nan if value is None else (value - low) / span for value in values]
    ticks = [(i / 4, _short(low + i / 4 * span)) for i in range(5)] if high > low else [(0.0, _short(low))]
    return _Axis(title, places, ticks, [NOTHING if v is None else f"{v:.3f}" for v in values], fans=False)


def _frame(num: int) -> Figure:
    return {
        "type": "scatter",
        "mode": "lines",
        "x": [x for place in range(num) for x in (place, place, None)][:-1],
        "y": [y for _ in range(num) for y in (0, 1, None)][:-1],
        "line": {"color": "@line", "width": 1.5},
        "hoverinfo": "skip",
    }


def _lines(rows: Sequence[ConfigRow], axes: Sequence[_Axis]) -> list[Figure]:
    """A trace a class; the best last, so that nothing hides them. Rows are given best first."""
    bounds = [*(math.ceil(len(rows) * share) for _, share, _, _ in _CLASSES), 0]
    traces: list[Figure] = []
    for (words, _, line, opacity), (end, start) in zip(_CLASSES, pairwise(bounds), strict=True):
        xs: list[float | None] = []
        ys: list[float | None] = []
        texts: list[str] = []
        for i in range(start, end):
            known = [(x, axis) for x, axis in enumerate(axes) if not math.isnan(axis.places[i])]
            xs += [*(x for x, _ in known), None]
            ys += [*(_height(axis, i, len(rows)) for _, axis in known), None]
            label = text(rows[i].label)
            texts += [*(f"{label}<br>{axis.title.replace('<br>', ' ')} {axis.texts[i]}" for _, axis in known), ""]
        if xs:
            trace: Figure = {"type": "scatter", "mode": "lines", "name": words, "x": xs[:-1], "y": ys[:-1]}
            traces.append(trace | {"text": texts[:-1], "hoverinfo": "text", "line": line, "opacity": opacity})
    return traces


def _height(axis: _Axis, i: int, of: int) -> float:
    """The better config passes above."""
    return round(axis.places[i] + (_FAN * (0.5 - i / max(1, of - 1)) if axis.fans else 0.0), 4)


def _ticks(place: int, axis: _Axis) -> list[Figure]:
    """Values beside an axis, on a ground of their own: lines pass behind them."""
    common: Figure = {
        "x": place,
        "xanchor": "right",
        "xshift": -4,
        "showarrow": False,
        "font": {"color": "@ink", "size": 10.5},
        "bgcolor": "@card",
        "opacity": 0.85,
        "borderpad": 1,
    }
    return [common | {"y": round(y, 4), "text": words} for y, words in axis.ticks]
