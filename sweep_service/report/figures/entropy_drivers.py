"""The causes of entropy's change: the predicted change by region, stacked, against the measured one."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

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
from sweep_service.report.figures.subplots import axes_of, axis, panels
from sweep_service.report.model import Report

_STRETCHES: Final = 24
_NOTE: Final = (
    "Bars: what the update rule lets each group of tokens do to entropy (arXiv:2509.20712, eq. 7), stacked. Line: the "
    "change measured on the probe set. Each is a mean per rollout over a stretch of training. Compare signs and the "
    "split between regions, never sizes: the prediction knows neither AdamW nor shared parameters."
)


class _Panel(NamedTuple):
    """One config's changes over equal stretches of training, nats per rollout."""

    title: str
    measured: list[float | None]
    predicted: dict[str, list[float | None]]
    """Predicted change by region."""


def driver_figures(report: Report, _styles: Mapping[str, ConfigStyle]) -> list[Figure]:
    """Draw predicted and measured changes of entropy for the best config, the baseline and the worst side by side."""
    curves = {
        (metric.key.removeprefix("entropy_change/"), curve.config_id): curve
        for metric in report.curves
        if metric.key.startswith("entropy_change/")
        for curve in metric.configs
    }
    predicted = {config_id for key, config_id in curves if key.startswith("predicted_")}
    chosen = [(title, row.id) for title, row in contrasted_configs(report) if row.id in predicted]
    ids = {id_ for _, id_ in chosen}
    bars = [curve for (key, of), curve in curves.items() if of in ids and key.startswith("predicted_") and curve.steps]
    if not bars:
        return []
    last = max(curve.steps[-1] for curve in bars)
    num = max(1, min(_STRETCHES, *(len(curve.steps) * last // curve.steps[-1] // 2 for curve in bars)))

    def over(key: str, config_id: str) -> list[float | None]:
        """Average a curve over each of `num` equal stretches up to the last step."""
        parts: list[list[float | None]] = [[] for _ in range(num)]
        curve = curves.get((key, config_id))
        for step, value in zip(curve.steps, curve.mean, strict=True) if curve else ():
            parts[min(num - 1, max(0, (step - 1) * num // last))].append(value)
        return [mean_of(part) for part in parts]

    drawn = [
        _Panel(title, over("measured", id_), {region: over(f"predicted_{region}", id_) for region in REGION_NAMES})
        for title, id_ in chosen
    ]
    middles = [round((place + 0.5) * last / num, 1) for place in range(num)]
    data = [trace for number, panel in enumerate(drawn) for trace in _traces(panel, number, len(drawn), middles)]
    return [
        {
            "id": "entropy-drivers",
            "title": "What moved entropy",
            "note": _NOTE,
            "data": data,
            **_sized(drawn, len(drawn), 300),
            "wide": True,
            "narrow": _sized(drawn, 1, 215),
        }
    ]


def _traces(panel: _Panel, number: int, of: int, middles: Sequence[float]) -> list[Figure]:
    bars = [
        {
            "type": "bar",
            "x": middles,
            "y": panel.predicted[region],
            **axes_of(number),
            "name": text(name),
            "marker": {"color": REGION_COLOURS[region], "line": {"width": 0}},
            "hovertemplate": "%{fullData.name}: predicted %{y:.2g}<extra></extra>",
            "showlegend": number == 0,
        }
        for region, name in REGION_NAMES.items()
    ]
    line = scatter(
        "lines+markers",
        middles,
        panel.measured,
        xaxis=axis("x", number),
        yaxis=axis("y", of + number),
        name="measured change (left axis)",
        line={"color": "@ink", "width": 2},
        connectgaps=True,
        marker={"color": "@ink", "size": 5},
        hovertemplate="measured %{y:.2g} nats per rollout<extra></extra>",
        showlegend=number == 0,
    )
    return [*bars, line]


def _sized(drawn: Sequence[_Panel], columns: int, pixels: int) -> Figure:
    """Lay out panels of `pixels` height, `columns` in a row, each with a second y axis whose zero is level."""
    height = pixels * -(-len(drawn) // columns) + 60
    stacks = [stack for panel in drawn for stack in zip(*panel.predicted.values(), strict=True)]
    ends = [sum(cut(value or 0, 0) for value in stack) for stack in stacks for cut in (min, max)]
    bars, line = _aligned(ends, [value for panel in drawn for value in panel.measured if value is not None])
    x: Figure = {"title": {"text": "optimizer updates"}, "showgrid": False, "zeroline": False, "nticks": 6}
    y: Figure = {"title": {"text": ""}, "range": bars, "showgrid": False, "fixedrange": True}
    layout = panels([panel.title for panel in drawn], columns, height, x, y)
    for number in range(len(drawn)):
        under = layout[axis("yaxis", number)]
        layout[axis("yaxis", len(drawn) + number)] = {
            **{name: value for name, value in under.items() if name != "matches"},
            "overlaying": axis("y", number),
            "side": "left",
            "range": line,
            "title": {"text": "nats per rollout" if number % columns == 0 else ""},
            "tickmode": "auto",
            "nticks": 6,
        }
        layout[axis("yaxis", number)] = under | {"showticklabels": False}
    layout |= {"barmode": "relative", "bargap": 0.12, "legend": legend(), "hovermode": "x"}
    return {"layout": layout, "height": height}


def _aligned(first: Sequence[float], second: Sequence[float]) -> tuple[list[float], list[float]]:
    """Return ranges for two axes on which zero lies at the same height and all values fit."""
    sizes = [max((abs(value) for value in values), default=0) or 1.0 for values in (first, second)]
    shares = [value / size for values, size in zip((first, second), sizes, strict=True) for value in values]
    down, up = 1.08 * min([*shares, -0.05]), 1.08 * max([*shares, 0.05])
    return [sizes[0] * down, sizes[0] * up], [sizes[1] * down, sizes[1] * up]
