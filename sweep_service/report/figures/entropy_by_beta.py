"""Policy entropy by beta: a panel for each value of a second parameter."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from sweep_service.report.figures.figure_style import (
    MOST_SHOWN,
    TITLES,
    ConfigStyle,
    Figure,
    legend,
    ordered_colour,
    scatter,
    text,
)
from sweep_service.report.figures.metric_curves import fitted, zone_shapes
from sweep_service.report.figures.subplots import axes_of, axis, panels
from sweep_service.report.figures.value_axis import entropy_zones, value_range
from sweep_service.report.model import ConfigRow, Report, ReportCurve
from sweep_service.sweep.labels import short_name, value_text
from sweep_service.sweep.records import Role

_PANELS: Final = ("loss.beta2", "loss.epsilon", "loss.epsilon_low", "loss.epsilon_high")
"""The first of these that varies has a panel for each value; if none varies, the second varied parameter has."""
_MOST_PANELS: Final = 12
_RANGES: Final = 4
"""Number of panels if there are too many values: each then shows a range of equally many values."""
_MOST_KEYS: Final = 6
"""Largest number of values in the legend; of more values, only some are named."""


class _Axes(NamedTuple):
    """The parameters of the lines and of the panels, with their values in order."""

    line: str
    panel: str
    lines: list[Any]
    values: list[Any]
    """The values of the panels' parameter."""

    def panels(self) -> list[tuple[str, list[Any]]]:
        """Return each panel's title and values."""
        name = short_name(self.panel)
        if len(self.values) <= _MOST_PANELS:
            return [(f"{name} = {value_text(value)}", [value]) for value in self.values]
        size = -(-len(self.values) // _RANGES)
        parts = [self.values[at : at + size] for at in range(0, len(self.values), size)]
        return [(f"{name} {value_text(part[0])} to {value_text(part[-1])}", part) for part in parts]

    def colour(self, value: Any) -> str:
        """Return a line's colour by the rank of its value among all."""
        return ordered_colour(self.lines.index(value), len(self.lines))


def _axes(space: Sequence[ConfigRow]) -> _Axes | None:
    """Choose the two parameters; None unless two vary, each over at least two values that can be put in order."""
    values: dict[str, list[Any]] = {}
    for name in space[0].params if space else ():
        tried = {repr(row.params.get(name)): row.params.get(name) for row in space}.values()
        numbers = sorted(value for value in tried if isinstance(value, int | float))
        values[name] = [*numbers, *sorted(value for value in tried if isinstance(value, str))]
    varied = [name for name, tried in values.items() if len(tried) > 1]
    line = "loss.beta1" if "loss.beta1" in varied else next(iter(varied), None)
    others = [name for name in varied if name != line]
    panel = next((name for name in (*_PANELS, *others) if name in others), None)
    if line is None or panel is None or (len(values[panel]) > _MOST_PANELS and isinstance(values[panel][-1], str)):
        return None
    return _Axes(line, panel, values[line], values[panel])


def entropy_figures(report: Report, _styles: Mapping[str, ConfigStyle]) -> list[Figure]:
    """Draw the means of policy entropy by beta, a panel for each value of a second parameter."""
    entropy = report.curves_of("entropy")
    space = [row for row in report.configs if Role.SPACE in row.roles and Role.BASELINE not in row.roles]
    axes = _axes(space)
    if entropy is None or axes is None:
        return []
    curves = {curve.config_id: curve for curve in entropy.configs}
    baseline = next((row for row in report.configs if Role.BASELINE in row.roles and row.id in curves), None)
    legend_follows = len(report.configs) <= MOST_SHOWN
    data = _keys(axes, baseline is not None)
    for number, (_, values) in enumerate(axes.panels()):
        inside = [row for row in space if row.params[axes.panel] in values and row.params[axes.line] in axes.lines]
        for row in sorted((row for row in inside if row.id in curves), key=lambda row: row.number):
            colour = axes.colour(row.params[axes.line])
            data.append(_line(curves[row.id], row, colour, number, meta=legend_follows))
        if baseline:
            data.append(_line(curves[baseline.id], baseline, "@ink", number, meta=legend_follows))
    titles = [title for title, _ in axes.panels()]
    columns = 3 if len(titles) in (3, 5, 6, 9) else min(4, len(titles))
    zones = entropy_zones(report, entropy.configs)
    settings = fitted(value_range(entropy.configs, zones))
    note = "Means over seeds; all panels have the same axes."
    if not legend_follows:
        note += " Every config is drawn here, whatever the buttons say."
    return [
        {
            "id": "entropy-panels",
            "title": f"Entropy by {short_name(axes.line)}, for each {short_name(axes.panel)}",
            "note": note,
            "data": data,
            **_sized(titles, columns, 215, settings, zone_shapes(zones)),
            "wide": True,
            "narrow": _sized(titles, min(2, len(titles)), 165, settings, zone_shapes(zones)),
        }
    ]


def _sized(titles: Sequence[str], columns: int, pixels: int, settings: Figure, zones: list[Figure]) -> Figure:
    """Lay out panels of `pixels` height in `columns` columns, with the zones that are near behind the lines of each."""
    height = pixels * -(-len(titles) // columns) + 70
    x: Figure = {"title": {"text": "optimizer updates"}, "rangemode": "tozero", "nticks": 5}
    y: Figure = {"title": {"text": TITLES["entropy"][1]}, "nticks": 5, **settings}
    layout = panels(titles, columns, height, x, y)
    layout["shapes"] = [
        {name: value for name, value in zone.items() if name != "label"}
        | {"xref": f"{axis('x', number)} domain", "yref": axis("y", number)}
        for number in range(len(titles))
        for zone in zones
    ]
    for number in range(len(titles)):
        layout[axis("xaxis", number)]["showgrid"] = False
    return {"layout": layout | {"legend": legend(), "hovermode": "closest"}, "height": height}


def _line(curve: ReportCurve, row: ConfigRow, colour: str, panel: int, *, meta: bool) -> Figure:
    return scatter(
        "lines",
        curve.steps,
        curve.mean,
        **axes_of(panel),
        name=text(row.label),
        line={"color": colour, "width": 2, "dash": "dot" if colour == "@ink" else "solid"},
        hovertemplate="%{fullData.name}<br>update %{x}: %{y:.3g}<extra></extra>",
        **({"meta": {"config": row.id, "seed": False}} if meta else {}),
    )


def _keys(axes: _Axes, baseline: bool) -> list[Figure]:
    """Make the legend's entries: each value of the lines' parameter, or some of many."""
    last, few = len(axes.lines) - 1, min(len(axes.lines), _MOST_KEYS)
    named = [axes.lines[round(at * last / (few - 1))] for at in range(few)]
    keys = [(f"{short_name(axes.line)} = {value_text(value)}", axes.colour(value), "solid") for value in named]
    return [
        scatter(
            "lines",
            [None],
            [None],
            name=text(name),
            line={"color": colour, "width": 2.5, "dash": dash},
            showlegend=True,
        )
        for name, colour, dash in [*keys, *([("baseline", "@ink", "dot")] if baseline else [])]
    ]
