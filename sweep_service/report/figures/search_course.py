"""The search: parallel coordinates, importance, results in the order of the search, time and cost of trials."""

from collections.abc import Mapping, Sequence
from itertools import accumulate
from math import prod
from typing import Final

from sweep_service.report.figures.figure_style import ConfigStyle, Figure, text
from sweep_service.report.figures.parallel_coordinates import parallel_figure
from sweep_service.report.model import ConfigRow, Importance, Report, TrialRow
from sweep_service.sweep.labels import short_name
from sweep_service.sweep.records import Role, TrialState

_FEWEST: Final = 10
"""Configs below which the order of the search says nothing."""
_SYMBOLS: Final = {TrialState.SUCCEEDED: "circle", TrialState.DIVERGED: "x", TrialState.FAILED: "x"}
_MINUTES_BELOW: Final = 2.0
"""Hours of the longest trial below which minutes are shown."""


def search_figures(report: Report, look: Mapping[str, ConfigStyle]) -> list[Figure]:
    """Parallel coordinates, importance, the search's progress, what trials cost."""
    figures = (
        parallel_figure(report),
        _importance(report.importance) if report.importance else None,
        _history(report),
        _cost(report, look),
    )
    return [figure for figure in figures if figure]


def _importance(found: Importance) -> Figure:
    """Bars by parameter, the most important on top."""
    order = sorted(range(len(found.names)), key=lambda i: (found.fanova[i], found.ped_anova[i], found.names[i]))
    names = [text(short_name(found.names[i])) for i in order]

    def bars(name: str, values: Sequence[float], colour: str) -> Figure:
        return {
            "type": "bar",
            "orientation": "h",
            "y": names,
            "x": [round(values[i], 4) for i in order],
            "name": name,
            "marker": {"color": colour},
            "hovertemplate": "%{y}: %{x:.2f}",
            "showlegend": True,
        }

    return {
        "id": "importance",
        "title": "Importance of parameters",
        "note": found.text,
        "height": 130 + 44 * len(names),
        "data": [
            bars("PED-ANOVA", found.ped_anova, "@c1"),
            bars("fANOVA", found.fanova, "@c0"),
        ],
        "layout": {
            "xaxis": {"title": {"text": "share"}, "rangemode": "tozero"},
            "yaxis": {"showgrid": False, "fixedrange": True},
            "barmode": "group",
            "bargap": 0.35,
            "hovermode": "y unified",
            "legend": {
                "orientation": "h", "x": 0, "xanchor": "left", "y": 1, "yanchor": "bottom", "traceorder": "reversed",
                "bgcolor": "rgba(0,0,0,0)", "itemclick": False, "itemdoubleclick": False,
            },
        },
    }  # fmt: skip


def _history(report: Report) -> Figure | None:
    """Tune means in the order in which the configs were proposed, and the best so far; None for a grid."""
    space = [row for row in report.configs if Role.SPACE in row.roles]
    rows = sorted((row for row in space if row.tune), key=lambda row: row.number)
    if len(rows) < _FEWEST or _is_grid(space):
        return None
    numbers, means = [row.number for row in rows], [round(row.tune.mean, 5) for row in rows if row.tune]
    dots: Figure = {
        "type": "scatter",
        "mode": "markers",
        "x": numbers,
        "y": means,
        "marker": {"color": "@c0", "size": 6, "opacity": 0.75},
        "text": [text(row.label) for row in rows],
        "hovertemplate": "%{text}<br>%{y:.3f}<extra></extra>",
    }
    best: Figure = {
        "type": "scatter",
        "mode": "lines",
        "x": numbers,
        "y": list(accumulate(means, max)),
        "line": {"color": "@ink", "width": 1.8, "shape": "hv"},
        "hoverinfo": "skip",
    }
    return {
        "id": "history",
        "title": "Results in the order of the search",
        "note": "Dots: tune means of the configs of the space. Line: the best so far, and as the best of "
        "many flattered by luck.",
        "data": [best, dots],
        "layout": {
            "xaxis": {"title": {"text": "config number"}},
            "yaxis": {"title": {"text": "objective (tune)"}},
            "hovermode": "closest",
        },
    }


def _is_grid(space: Sequence[ConfigRow]) -> bool:
    """Whether every combination of the parameters' values is there: then the order means nothing."""
    names = dict.fromkeys(name for row in space for name in row.params)
    return prod(len({repr(row.params.get(name)) for row in space}) for name in names) == len(space)


def _cost(report: Report, look: Mapping[str, ConfigStyle]) -> Figure | None:
    """Time against tokens, or against the trial's number where tokens were not counted; a dot a trial."""
    timed = [trial for trial in report.trials if trial.seconds]
    if not timed:
        return None
    longest = max(trial.seconds or 0.0 for trial in timed) / 3600
    unit, per_unit = ("minutes", 60.0) if longest < _MINUTES_BELOW else ("hours", 3600.0)
    counted = all(trial.tokens is not None for trial in timed)
    by_config: dict[str, list[TrialRow]] = {}
    for trial in timed:
        by_config.setdefault(trial.config_id, []).append(trial)
    x_title = "completion tokens trained on" if counted else "trial number"
    return {
        "id": "cost",
        "title": "Time and tokens of a trial" if counted else "Time of a trial",
        "note": "A dot a trial; crosses failed or diverged, rings have not ended.",
        "data": [
            _cost_dots(row, by_config[row.id], look[row.id], per_unit, unit, counted=counted)
            for row in report.configs
            if row.id in by_config
        ],
        "layout": {
            "xaxis": {"title": {"text": x_title}},
            "yaxis": {"title": {"text": unit}},
            "hovermode": "closest",
        },
    }


def _cost_dots(
    row: ConfigRow, trials: Sequence[TrialRow], look: ConfigStyle, per_unit: float, unit: str, *, counted: bool
) -> Figure:
    return {
        "type": "scatter",
        "mode": "markers",
        "x": [round(trial.tokens or 0.0) if counted else trial.number for trial in trials],
        "y": [round((trial.seconds or 0.0) / per_unit, 3) for trial in trials],
        "marker": {
            "color": look.colour,
            "size": 7,
            "opacity": 0.85,
            "symbol": [_SYMBOLS.get(trial.state, "circle-open") for trial in trials],
        },
        "text": text(row.label),
        "customdata": [[trial.number, trial.seed] for trial in trials],
        "hovertemplate": f"%{{text}}<br>trial %{{customdata[0]}}, seed %{{customdata[1]}}: %{{y:.3g}} {unit}"
        + (", %{x:,} tokens" if counted else "")
        + "<extra></extra>",
        "meta": {"config": row.id, "seed": False},
    }
