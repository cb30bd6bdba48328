"""The tokens over training: shares of the regions, of the gradient's weight, and of the ratio."""

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Final

from sweep_service.report.figures.figure_style import (
    REGION_COLOURS,
    REGION_NAMES,
    ConfigStyle,
    Figure,
    contrasted_configs,
    legend,
    mean_of,
    scatter,
    text,
)
from sweep_service.report.figures.metric_curves import curve_figures
from sweep_service.report.figures.subplots import axes_of, panels
from sweep_service.report.model import Report, ReportCurve
from trainers.record.metrics import RATIO_BINS

_OUTSIDE: Final = tuple(region for region in REGION_NAMES if region != "inside")
_LEAST: Final = -5.0
"""Smallest log10 of a share that has a colour of its own."""
_COLOURS: Final = {
    "cmin": _LEAST,
    "cmax": 0,
    "colorscale": [[0, "@card"], [0.65, "@c0"], [1, "@ink"]],
    "colorbar": {
        "orientation": "h",
        "y": 1,
        "yanchor": "bottom",
        "thickness": 8,
        "outlinewidth": 0,
        "tickvals": [-5, -4, -3, -2, -1, 0],
        "ticktext": ["0.001 %", "0.01 %", "0.1 %", "1 %", "10 %", "100 %"],
    },
}
_COLUMNS: Final = 60
"""Number of stretches of training in a histogram over time."""
_PANEL: Final = 165
"""Height in pixels of each config's panel."""

Panels = list[tuple[str, dict[str, ReportCurve]]]
"""Title of each config's panel, and the config's curves by name."""


def region_figures(report: Report, styles: Mapping[str, ConfigStyle]) -> list[Figure]:
    """Draw shares of tokens by config; for a few configs the gradient's weight by region and the ratio's histogram.

    Configs that lack one of a figure's curves are left out of it.
    """
    figures = curve_figures("share/na_lp", "share/pa_lp")(report, styles)
    for prefix, names, draw in (
        ("weight_share", _OUTSIDE, _weight_figure),
        ("ratio_share", tuple(RATIO_BINS), _ratio_figure),
    ):
        by_config: dict[str, dict[str, ReportCurve]] = {}
        for metric in report.curves:
            head, _, name = metric.key.partition("/")
            for curve in metric.configs if head == prefix and name in names else []:
                by_config.setdefault(curve.config_id, {})[name] = curve
        whole = {id_: curves for id_, curves in by_config.items() if len(curves) == len(names)}
        chosen = [(title, whole[row.id]) for title, row in contrasted_configs(report) if row.id in whole]
        figures += [draw(chosen, 60 + _PANEL * len(chosen))] if chosen else []
    return figures


def _weight_figure(chosen: Panels, height: int) -> Figure:
    steps: Figure = {"title": {"text": "optimizer updates"}, "rangemode": "tozero"}
    shares: Figure = {"title": {"text": "share of the weight"}, "rangemode": "tozero", "tickformat": ".2~%"}
    layout = panels([title for title, _ in chosen], 1, height, steps, shares)
    areas = [
        scatter(
            "lines",
            curves[region].steps,
            curves[region].mean,
            **axes_of(panel),
            name=text(REGION_NAMES[region]),
            stackgroup=f"panel{panel}",
            line={"color": REGION_COLOURS[region], "width": 1},
            fillcolor=REGION_COLOURS[region],
            hovertemplate="%{y:.2%}",
            showlegend=panel == 0,
        )
        for panel, (_, curves) in enumerate(chosen)
        for region in _OUTSIDE
    ]
    return {
        "id": "weight_share",
        "title": "Gradient weight outside the clip bounds",
        "note": "Share of the summed |A x weight| by region. The rest lies inside the bounds.",
        "height": height,
        "data": areas,
        "layout": layout | {"hovermode": "x unified", "legend": legend() | {"traceorder": "normal"}},
    }


def _ratio_figure(chosen: Panels, height: int) -> Figure:
    steps: Figure = {"title": {"text": "optimizer updates"}, "showgrid": False, "zeroline": False}
    ratios: Figure = {"title": {"text": "ratio"}, "showgrid": False, "zeroline": False}
    layout = panels([title for title, _ in chosen], 1, height, steps, ratios)
    return {
        "id": "ratio_share",
        "title": "Ratio new / old probability of the tokens",
        "note": "Share of tokens in each bin, on a log scale. After each rollout the ratios start at 1 anew.",
        "height": height,
        "data": [_histogram(curves, panel) for panel, (_, curves) in enumerate(chosen)],
        "layout": layout | {"hovermode": "closest", "coloraxis": _COLOURS},
    }


def _histogram(bins: Mapping[str, ReportCurve], panel: int) -> Figure:
    """Draw a column for each stretch of training and a row for each bin; cells without a token stay empty."""
    steps = bins[next(iter(RATIO_BINS))].steps
    num = min(_COLUMNS, len(steps))
    parts = [slice(*ends) for ends in pairwise(len(steps) * i // num for i in range(num + 1))]
    shares = [[mean_of(bins[name].mean[part]) for part in parts] for name in RATIO_BINS]
    return {
        "type": "heatmap",
        "x": [steps[part][-1] for part in parts],
        "y": [name.replace("_to_", " to ").replace("_", " ") for name in RATIO_BINS],
        "z": [[round(max(_LEAST, math.log10(share)), 3) if share else None for share in row] for row in shares],
        "customdata": shares,
        **axes_of(panel),
        "coloraxis": "coloraxis",
        "hovertemplate": "update %{x}, ratio %{y}: %{customdata:.3%}<extra></extra>",
    }
