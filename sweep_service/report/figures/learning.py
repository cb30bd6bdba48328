"""Learning: held-out accuracy, reward, what more samples would still find, reward against length."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final

from sweep_service.report.figures.figure_style import ConfigStyle, Figure, text
from sweep_service.report.figures.metric_curves import curve_figure
from sweep_service.report.model import ConfigRow, CurveSet, Report, ReportCurve

_KEYS: Final = ("eval/avg_at_k", "reward/mean", "eval/pass_at_k")
_STRETCHES: Final = 12
"""Points of a path: each is the mean over so large a part of training, so that a path can be followed."""
_SPAN: Final = 0.2
"""The least width of the length axis, as a share of the lengths: noise is not to look like a journey."""

Points = list[tuple[int, float, float]]
"""Optimizer update and the two values there."""


def learning_figures(report: Report, look: Mapping[str, ConfigStyle]) -> list[Figure]:
    """Validation accuracy and reward over training, what more samples would still find, reward against length."""
    sets = {found.key: found for found in report.curves}
    figures = [curve_figure(sets[key], report, look) for key in _KEYS if key in sets]
    if "eval/avg_at_k" in sets and "eval/pass_at_k" in sets:
        figures += _exploration_left(sets["eval/avg_at_k"], sets["eval/pass_at_k"], report, look)
    if "reward/mean" in sets and "completion/length_mean" in sets:
        figures += _length_paths(sets["completion/length_mean"], sets["reward/mean"], report, look)
    return figures


def _exploration_left(
    average: CurveSet, best: CurveSet, report: Report, look: Mapping[str, ConfigStyle]
) -> list[Figure]:
    traces: list[Figure] = []
    for row, points in _joined(average, best, report):
        trace = _line(row, look[row.id], "lines+markers" if len(points) <= 16 else "lines")
        trace |= {"x": [step for step, _, _ in points], "y": [round(b - a, 5) for _, a, b in points]}
        traces.append(trace | {"marker": {"size": 5, "color": look[row.id].colour}, "hovertemplate": "%{y:.3f}"})
    layout: Figure = {
        "xaxis": {"title": {"text": "optimizer updates"}, "rangemode": "tozero"},
        "yaxis": {"title": {"text": "pass@k - avg@k"}, "rangemode": "tozero"},
        "hovermode": "x unified",
    }
    note = "Problems that some of k samples solve, beyond the average sample. Near 0 all samples do alike."
    figure = {"id": "pass_minus_avg", "title": "What more samples would still find", "note": note}
    return [figure | {"data": traces, "layout": layout}] if traces else []


def _length_paths(length: CurveSet, reward: CurveSet, report: Report, look: Mapping[str, ConfigStyle]) -> list[Figure]:
    traces = [
        _path(row, _thinned(points), look[row.id]) for row, points in _joined(length, reward, report) if len(points) > 1
    ]
    layout: Figure = {
        "xaxis": {"title": {"text": "completion length, tokens"}, "range": _range([x for t in traces for x in t["x"]])},
        "yaxis": {"title": {"text": "mean reward"}},
        "hovermode": "closest",
    }
    note = "Paths over training; the arrow is the end. Length hacking moves to the right without rising."
    figure = {"id": "reward_length", "title": "Reward against length", "note": note}
    return [figure | {"data": traces, "layout": layout}] if traces else []


def _range(lengths: Sequence[float]) -> list[float]:
    low, high = min(lengths, default=0.0), max(lengths, default=1.0)
    middle, half = (low + high) / 2, max(0.54 * (high - low), _SPAN / 2 * (low + high) / 2)
    return [round(middle - half, 3), round(middle + half, 3)]


def _path(row: ConfigRow, points: Points, look: ConfigStyle) -> Figure:
    last = len(points) - 1
    return _line(row, look, "lines+markers") | {
        "x": [round(x, 3) for _, x, _ in points],
        "y": [round(y, 4) for _, _, y in points],
        "customdata": [step for step, _, _ in points],
        "marker": {
            "color": look.colour,
            "symbol": [*["circle"] * last, "arrow"],
            "size": [*[3] * last, 14],
            "angleref": "previous",
            "opacity": 1,
            "line": {"width": 0},
        },
        "text": text(row.label),
        "hovertemplate": "%{text}<br>update %{customdata}: %{x:.1f} tokens, reward %{y:.3f}<extra></extra>",
    }


def _line(row: ConfigRow, look: ConfigStyle, mode: str) -> Figure:
    return {
        "type": "scatter",
        "mode": mode,
        "name": text(row.label),
        "line": {"color": look.colour, "width": 2.2, "dash": look.dash},
        "meta": {"config": row.id, "seed": False},
    }


def _joined(first: CurveSet, second: CurveSet, report: Report) -> list[tuple[ConfigRow, Points]]:
    """Each config's two means where it has both, in the configs' order of numbers."""
    firsts = {curve.config_id: curve for curve in first.configs}
    seconds = {curve.config_id: curve for curve in second.configs}
    rows = sorted(report.configs, key=lambda row: row.number)
    both = [(row, _common(firsts[row.id], seconds[row.id])) for row in rows if row.id in firsts and row.id in seconds]
    return [(row, points) for row, points in both if points]


def _common(first: ReportCurve, second: ReportCurve) -> Points:
    others = dict(zip(second.steps, second.mean, strict=True))
    pairs = ((step, value, others.get(step)) for step, value in zip(first.steps, first.mean, strict=True))
    return [(step, a, b) for step, a, b in pairs if a is not None and b is not None]


def _thinned(points: Sequence[tuple[int, float, float]]) -> Points:
    """Means over equal stretches."""
    num = min(_STRETCHES, len(points))
    cuts = [len(points) * i // num for i in range(num + 1)]
    parts = [points[start:end] for start, end in pairwise(cuts)]
    return [
        (part[-1][0], sum(x for _, x, _ in part) / len(part), sum(y for _, _, y in part) / len(part)) for part in parts
    ]
