"""Descriptive panels: performance profiles, interquartile means, probabilities of improvement."""

from collections.abc import Mapping, Sequence
from typing import Final

from sweep_service.report.figures.config_axis import config_axis, config_height
from sweep_service.report.figures.figure_style import ConfigStyle, Figure, text
from sweep_service.report.model import ConfigRow, Descriptive, Report

_NO_CLAIM: Final = "Descriptive: no claim follows from it."


def panel_figures(report: Report, look: Mapping[str, ConfigStyle]) -> list[Figure]:
    """Performance profiles, then interquartile means beside probabilities of improvement."""
    found = report.descriptive
    if found is None:
        return []
    rows = {row.id: row for row in report.configs}
    compared = [row for row in report.configs if row.id in found.iqm and row.id in found.improvement]
    figures = [_profiles(found, rows, look)] if found.profiles else []
    return figures + ([_summaries(found, rows, compared, look)] if compared else [])


def _profiles(found: Descriptive, rows: Mapping[str, ConfigRow], look: Mapping[str, ConfigStyle]) -> Figure:
    traces: list[Figure] = [
        {
            "type": "scatter",
            "mode": "lines",
            "x": found.thresholds,
            "y": profile.shares,
            "name": text(rows[profile.config_id].label),
            "line": {
                "color": look[profile.config_id].colour,
                "dash": look[profile.config_id].dash,
                "width": 2.2,
                "shape": "vh",
            },
            "hovertemplate": "%{y:.0%}",
            "meta": {"config": profile.config_id, "seed": False},
        }
        for profile in found.profiles
    ]
    return {
        "id": "profiles",
        "title": "Performance profiles",
        "note": f"Share of a config's confirm seeds with at least this objective. {_NO_CLAIM}",
        "data": traces,
        "layout": {
            "xaxis": {"title": {"text": "objective"}},
            "yaxis": {"title": {"text": "share of seeds"}, "range": [-0.03, 1.05], "tickformat": ".0%"},
            "hovermode": "x unified",
        },
    }


def _summaries(
    found: Descriptive, rows: Mapping[str, ConfigRow], compared: Sequence[ConfigRow], look: Mapping[str, ConfigStyle]
) -> Figure:
    """Two columns with a config a row: interquartile mean of the difference, probability of improvement."""
    comparator = rows[found.comparator_id].label
    last = len(compared) - 0.5
    iqms = [found.iqm[row.id] for row in compared]
    reach = 1.25 * max(map(abs, iqms)) or 1.0
    neutral: Figure = {"type": "line", "y0": -0.5, "y1": last, "line": {"color": "@muted", "width": 1, "dash": "dot"}}
    return {
        "id": "summaries",
        "title": "Interquartile mean and probability of improvement",
        "note": f"Against {comparator}. Left: interquartile mean over seeds of the difference. Right: share of pairs "
        f"of seeds in which the config is higher. {_NO_CLAIM}",
        "height": config_height(compared),
        "data": [
            _dots(iqms, compared, look, "x", "%{x:+.3f}"),
            _dots([found.improvement[row.id] for row in compared], compared, look, "x2", "%{x:.0%}"),
        ],
        "layout": {
            "xaxis": {
                "title": {"text": "IQM"},
                "domain": [0, 0.47],
                "range": [-reach, reach],
                "nticks": 5,
            },
            "xaxis2": {
                "title": {"text": "probability"},
                "domain": [0.53, 1],
                "range": [-0.05, 1.05],
                "tickvals": [0, 0.5, 1],
                "tickformat": ".0%",
                "anchor": "y",
            },
            "yaxis": config_axis(compared),
            "shapes": [neutral | {"xref": "x", "x0": 0, "x1": 0}, neutral | {"xref": "x2", "x0": 0.5, "x1": 0.5}],
            "hovermode": "closest",
        },
    }


def _dots(
    values: Sequence[float], rows: Sequence[ConfigRow], look: Mapping[str, ConfigStyle], axis: str, value: str
) -> Figure:
    return {
        "type": "scatter",
        "mode": "markers",
        "x": [round(value, 5) for value in values],
        "y": list(range(len(rows))),
        "xaxis": axis,
        "marker": {"color": [look[row.id].colour for row in rows], "size": 11},
        "text": [text(row.label) for row in rows],
        "hovertemplate": f"%{{text}}<br>{value}<extra></extra>",
    }
