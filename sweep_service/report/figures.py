"""The report's figures as plotly dictionaries.

Colours are names of the page's style variables (`@c0`, `@ink`), which the page's script replaces, so that one file
serves light and dark. A trace's `meta` says which config it shows and whether it is a single seed.
"""

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sweep_service.records import Role
from sweep_service.report.health import ENTROPY_COLLAPSE
from sweep_service.report.model import ConfigCurve, ConfigRow, CurveSet, Report, SeedValue, StageResult

Figure = dict[str, Any]

NUM_COLOURS: Final = 7
DASHES: Final = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
MOST_SHOWN: Final = 20
"""With more configs only confirmed ones and comparators are shown at first."""

TITLES: Final = {
    "entropy": ("Policy entropy", "nats per token"),
    "eval/avg_at_k": ("Validation accuracy, avg@k", "avg@k"),
    "eval/pass_at_k": ("Validation pass@k", "pass@k"),
    "reward/mean": ("Training reward", "mean reward"),
    "share/na_lp": ("NA&LP tokens (scaled by β1)", "share of tokens"),
    "share/pa_lp": ("PA&LP tokens (scaled by β2)", "share of tokens"),
    "clip_fraction/low": ("Ratio below 1 - ε_low", "share of tokens"),
    "clip_fraction/high": ("Ratio above 1 + ε_high", "share of tokens"),
    "ppo_kl": ("KL(old ‖ new), k1 estimate", "nats"),
    "grad_norm": ("Gradient norm before clipping", "norm"),
    "completion/length_mean": ("Completion length", "tokens"),
}
"""Metric -> title and unit."""


@dataclass(frozen=True)
class Look:
    """How a config is drawn, the same in every figure."""

    colour: str
    dash: str
    shown: bool


def looks(report: Report) -> dict[str, Look]:
    """Colour by the first varied parameter's value (beta1 if it varies), dash by the others; comparators are neutral.

    With more values than colours, the configs shown at first have a colour each and the rest none.
    """
    space = sorted((row for row in report.configs if Role.SPACE in row.roles), key=lambda row: row.number)
    first = next((name for name in ("loss.beta1", *(space[0].params if space else ())) if _varies(space, name)), None)
    values, rests = sorted({_key(row, first) for row in space}), sorted({_rest(row, first) for row in space})
    many = len(report.configs) > MOST_SHOWN
    shown = {row.id for row in report.configs if not many or row.confirm or Role.SPACE not in row.roles}
    found: dict[str, Look] = {}
    for row in report.configs:
        if Role.BASELINE in row.roles:
            colour, dash = "@ink", "solid"
        elif Role.SPACE not in row.roles:
            colour, dash = "@muted", "dash" if Role.DAPO in row.roles else "dot"
        elif len(values) <= NUM_COLOURS:
            colour = f"@c{values.index(_key(row, first))}"
            dash = DASHES[rests.index(_rest(row, first)) % len(DASHES)]
        elif row.id in shown:
            colour, dash = (
                f"@c{[other.id for other in space if other.id in shown].index(row.id) % NUM_COLOURS}",
                "solid",
            )
        else:
            colour, dash = "@muted", "solid"
        found[row.id] = Look(colour, dash, row.id in shown)
    return found


def _varies(rows: Sequence[ConfigRow], name: str) -> bool:
    return len({repr(row.params.get(name)) for row in rows}) > 1


def _key(row: ConfigRow, name: str | None) -> tuple[float, str]:
    value = row.params.get(name) if name else None
    return (float(value), "") if isinstance(value, int | float) else (0.0, str(value))


def _rest(row: ConfigRow, name: str | None) -> str:
    return repr([value for other, value in row.params.items() if other != name])


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


def seed_figure(report: Report, look: Mapping[str, Look]) -> Figure | None:
    """Every seed's objective as a dot; lines join the same confirm seed across configs.

    Confirmed configs only, if there are any: a collapsed one would press the others onto one line.
    """
    rows = [row for row in report.configs if row.confirm] or [
        row for row in report.configs if row.tune and look[row.id].shown
    ]
    if not rows:
        return None
    rows.sort(key=lambda row: (Role.BASELINE not in row.roles, Role.SPACE not in row.roles))
    traces = _pair_lines(rows)
    for position, row in enumerate(rows):
        for stage, result, offset in (("tune", row.tune, -0.16), ("confirm", row.confirm, 0.16)):
            if result:
                traces += _dots(row, result, stage, position + (offset if row.confirm else 0), look[row.id])
    labels = [text(row.label).replace(" ", "<br>") for row in rows]
    layout: Figure = {
        "xaxis": {
            "tickvals": list(range(len(rows))),
            "ticktext": labels,
            "range": [-0.5, len(rows) - 0.5],
            "showgrid": False,
            "zeroline": False,
            "tickangle": 0,
        },
        "yaxis": {"title": {"text": "objective"}},
        "hovermode": "closest",
    }
    return {"id": "seeds", "title": "Every seed", "data": traces, "layout": layout}


def _pair_lines(rows: Sequence[ConfigRow]) -> list[Figure]:
    seeds = sorted({seed.seed for row in rows if row.confirm for seed in row.confirm.seeds})
    lines: list[Figure] = []
    for seed in seeds:
        points = [
            (position + 0.16, found.value)
            for position, row in enumerate(rows)
            if row.confirm
            for found in row.confirm.seeds
            if found.seed == seed
        ]
        lines.append(
            {
                "type": "scatter",
                "mode": "lines",
                "x": [x for x, _ in points],
                "y": [y for _, y in points],
                "line": {"color": "@muted", "width": 1},
                "opacity": 0.45,
                "hoverinfo": "skip",
            }
        )
    return lines


def _dots(row: ConfigRow, result: StageResult, stage: str, x: float, look: Look) -> list[Figure]:
    confirm = stage == "confirm"

    def hover(seed: SeedValue) -> str:
        return f"{text(row.label)}<br>{stage} seed {seed.seed}: {seed.value:.3f}"

    dots: Figure = {
        "type": "scatter",
        "mode": "markers",
        "x": [x] * result.n,
        "y": [seed.value for seed in result.seeds],
        "marker": {
            "color": look.colour,
            "size": 9,
            "symbol": "circle" if confirm else "circle-open",
            "opacity": 0.9,
        },
        "text": [hover(seed) for seed in result.seeds],
        "hovertemplate": "%{text}<extra></extra>",
    }
    mean: Figure = {
        "type": "scatter",
        "mode": "lines",
        "x": [x - 0.12, x + 0.12],
        "y": [result.mean, result.mean],
        "line": {"color": look.colour, "width": 3 if confirm else 1.5},
        "hoverinfo": "skip",
    }
    return [dots, mean]


def text(value: str) -> str:
    """A user's text as plotly shows it literally: its labels understand some HTML."""
    return html.escape(value, quote=False)
