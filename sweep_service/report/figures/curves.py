"""A metric over optimizer updates: thick means, thin seeds."""

from collections.abc import Mapping

from sweep_service.report.figures.common import TITLES, Figure, Look, text
from sweep_service.report.health import ENTROPY_COLLAPSE
from sweep_service.report.model import ConfigCurve, ConfigRow, CurveSet, Report


def curve_figure(found: CurveSet, report: Report, look: Mapping[str, Look]) -> Figure:
    """One metric over optimizer updates: thick means, thin seeds."""
    title, unit = TITLES[found.key]
    rows = {row.id: row for row in report.configs}
    by_number = sorted(found.configs, key=lambda curve: rows[curve.config_id].number)
    seeds = [trace for curve in by_number for trace in _seed_traces(curve, look[curve.config_id])]
    means = [_mean_trace(curve, rows[curve.config_id], look[curve.config_id]) for curve in by_number]
    layout: Figure = {
        "xaxis": {"title": {"text": "optimizer updates"}, "rangemode": "tozero"},
        "yaxis": {"title": {"text": unit}, "rangemode": "tozero" if min(_values(found), default=0) >= 0 else "normal"},
        "hovermode": "x unified",
    }
    if found.key == "entropy":
        layout |= _collapse_zone(report)
    return {"id": found.key, "title": title, "data": seeds + means, "layout": layout}


def _values(found: CurveSet) -> list[float]:
    return [value for curve in found.configs for value in curve.mean if value is not None]


def _mean_trace(curve: ConfigCurve, row: ConfigRow, look: Look) -> Figure:
    sparse = len(curve.steps) <= 16
    return {
        "type": "scatter",
        "mode": "lines+markers" if sparse else "lines",
        "x": curve.steps,
        "y": curve.mean,
        "name": text(row.label),
        "line": {"color": look.colour, "width": 2.8, "dash": look.dash},
        "marker": {"size": 5, "color": look.colour},
        "hovertemplate": "%{y:.3g}",
        "meta": {"config": curve.config_id, "seed": False},
    }


def _seed_traces(curve: ConfigCurve, look: Look) -> list[Figure]:
    return [
        {
            "type": "scatter",
            "mode": "lines",
            "x": seed.steps,
            "y": seed.values,
            "line": {"color": look.colour, "width": 1},
            "opacity": 0.35,
            "hoverinfo": "skip",
            "meta": {"config": curve.config_id, "seed": True},
        }
        for seed in curve.seeds
    ]


def _collapse_zone(report: Report) -> Figure:
    """Shade the entropies that count as collapsed for a trial that started where the configs did on average."""
    starts = [row.entropy_start for row in report.configs if row.entropy_start is not None]
    if not starts:
        return {}
    floor = ENTROPY_COLLAPSE * sum(starts) / len(starts)
    zone = {"type": "rect", "xref": "paper", "x0": 0, "x1": 1, "y0": 0, "y1": floor, "line": {"width": 0}}
    label = {"text": "entropy collapse (below a fifth of the start)", "textposition": "bottom right"}
    return {"shapes": [zone | {"fillcolor": "@zonecolor", "layer": "below", "label": label}]}


def other_curves(report: Report, look: Mapping[str, Look]) -> list[Figure]:
    """The metrics that no other figure shows."""
    keys = ("clip_fraction/low", "clip_fraction/high", "ppo_kl", "grad_norm")
    return [curve_figure(found, report, look) for found in report.curves if found.key in keys]
