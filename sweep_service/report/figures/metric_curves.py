"""A metric over optimizer updates: thick means, thin seeds, the band of the mean."""

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from math import inf
from typing import Final

from sweep_service.report.figures.figure_style import TITLES, ConfigStyle, Figure, scatter, text, with_gaps
from sweep_service.report.figures.value_axis import ValueRange, Zone, entropy_zones, value_range
from sweep_service.report.model import ConfigRow, CurveSet, Report, ReportCurve

_BAND: Final = 0.16
_BAND_OF_MANY: Final = 0.07
_FEW: Final = 8
"""Opacity of a band; its opacity if more than `_FEW` configs are shown, so that bands overlap; and that number."""
_UP_TO_ONE: Final = ("avg@k", "pass@k", "share of tokens")
"""Units of metrics that cannot exceed 1."""


def curve_figures(*keys: str) -> Callable[[Report, Mapping[str, ConfigStyle]], list[Figure]]:
    """Return a function that draws these metrics, in this order, as far as a report has them."""

    def draw(report: Report, styles: Mapping[str, ConfigStyle]) -> list[Figure]:
        return [curve_figure(curves, report, styles) for key in keys if (curves := report.curves_of(key))]

    return draw


def curve_figure(metric: CurveSet, report: Report, styles: Mapping[str, ConfigStyle]) -> Figure:
    """Draw one metric over optimizer updates: thick means, thin seeds, and the 95 % band of each mean."""
    title, unit = TITLES[metric.key]
    rows = {row.id: row for row in report.configs}
    by_number = sorted(metric.configs, key=lambda curve: rows[curve.config_id].number)
    zones = entropy_zones(report, metric.configs) if metric.key == "entropy" else []
    values = value_range(metric.configs, zones)
    opacity = _BAND if sum(style.shown for style in styles.values()) <= _FEW else _BAND_OF_MANY
    most = 1.0 if unit in _UP_TO_ONE else inf
    bands = [
        _band_trace(curve, styles[curve.config_id], min(values.low, 0), most, opacity)
        for curve in by_number
        if curve.low
    ]
    seeds = [
        scatter(
            "lines",
            *with_gaps((seed.steps, seed.values) for seed in curve.seeds),
            line={"color": styles[curve.config_id].colour, "width": 1},
            opacity=0.35,
            hoverinfo="skip",
            meta={"config": curve.config_id, "seed": True},
        )
        for curve in by_number
        if curve.seeds
    ]
    means = [_mean_trace(curve, rows[curve.config_id], styles[curve.config_id]) for curve in by_number]
    layout: Figure = {
        "xaxis": {"title": {"text": "optimizer updates"}, "rangemode": "tozero"},
        "yaxis": {"title": {"text": unit}, **fitted(values)},
        "hovermode": "x unified",
        "shapes": zone_shapes(zones),
    }
    return {"id": metric.key, "title": title, "data": bands + seeds + means, "layout": layout}


def _mean_trace(curve: ReportCurve, row: ConfigRow, style: ConfigStyle) -> Figure:
    return scatter(
        "lines+markers" if len(curve.steps) <= 16 else "lines",
        curve.steps,
        curve.mean,
        name=text(row.label),
        line={"color": style.colour, "width": 2.8, "dash": style.dash},
        marker={"size": 5, "color": style.colour},
        hovertemplate="%{y:.3g}",
        meta={"config": curve.config_id, "seed": False},
    )


def _band_trace(curve: ReportCurve, style: ConfigStyle, floor: float, most: float, opacity: float) -> Figure:
    """Fill the area between the mean's bounds; a missing bound parts it, and it lies between `floor` and `most`."""
    stretches: list[tuple[list[int], list[float]]] = []
    bounds = zip(curve.steps, curve.low, curve.high, strict=True)
    for whole, group in groupby(bounds, key=lambda bound: bound[1] is not None and bound[2] is not None):
        if whole:
            steps, lows, highs = zip(*group, strict=True)
            up = [min(high, most) for high in reversed(highs)]
            stretches.append(([*steps, *reversed(steps)], [*(max(low, floor) for low in lows), *up]))
    return scatter(
        "lines",
        *with_gaps(stretches),
        fill="toself",
        fillcolor=style.colour,
        line={"color": style.colour, "width": 0},
        opacity=opacity,
        hoverinfo="skip",
        meta={"config": curve.config_id, "seed": False},
    )


def fitted(values: ValueRange) -> Figure:
    """Return an axis's settings by which it shows these values, and of bands not much more."""
    least, most = values.ends
    ends = {"clipmin": least, "clipmax": most}
    return {"rangemode": "tozero" if values.from_zero else "normal", "autorangeoptions": ends}


def zone_shapes(zones: Sequence[Zone]) -> list[Figure]:
    """Shade zones over the whole width."""
    place = {"type": "rect", "xref": "paper", "x0": 0, "x1": 1, "line": {"width": 0}, "fillcolor": "@zonecolor"}
    return [
        place
        | {"y0": zone.low, "y1": zone.high, "layer": "below"}
        | {"label": {"text": zone.words, "textposition": "top right" if zone.at_top else "bottom right"}}
        for zone in zones
    ]
