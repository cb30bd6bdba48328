"""The search: the configs' results in the order in which they were proposed."""

from collections.abc import Mapping
from itertools import accumulate
from math import prod
from typing import Final

from sweep_service.report.figures.figure_style import ConfigStyle, Figure, scatter, text
from sweep_service.report.model import Report
from sweep_service.sweep.records import Role

_FEWEST: Final = 10
"""With fewer configs the order of the search says nothing."""


def search_figures(report: Report, _styles: Mapping[str, ConfigStyle]) -> list[Figure]:
    """Draw tune means in the order in which the configs were proposed, and the best so far; nothing for a grid."""
    space = [row for row in report.configs if Role.SPACE in row.roles]
    rows = sorted((row for row in space if row.tune), key=lambda row: row.number)
    params = dict.fromkeys(name for row in space for name in row.params)
    num_combinations = prod(len({repr(row.params.get(name)) for row in space}) for name in params)
    if len(rows) < _FEWEST or num_combinations == len(space):  # of a grid the order means nothing
        return []
    numbers, means = [row.number for row in rows], [round(row.tune.mean, 5) for row in rows if row.tune]
    dots = scatter(
        "markers",
        numbers,
        means,
        marker={"color": "@c0", "size": 6, "opacity": 0.75},
        text=[text(row.label) for row in rows],
        hovertemplate="%{text}<br>%{y:.3f}<extra></extra>",
    )
    stairs = {"color": "@ink", "width": 1.8, "shape": "hv"}
    best = scatter("lines", numbers, list(accumulate(means, max)), line=stairs, hoverinfo="skip")
    layout: Figure = {
        "xaxis": {"title": {"text": "config number"}},
        "yaxis": {"title": {"text": "objective (tune)"}},
        "hovermode": "closest",
    }
    return [
        {
            "id": "history",
            "title": "Results in the order of the search",
            "note": "Dots: tune means of the configs of the space. Line: the best so far, and as the best of many "
            "flattered by luck.",
            "data": [best, dots],
            "layout": layout,
        }
    ]
