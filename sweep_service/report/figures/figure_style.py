"""The form of a figure, and the style in which a config is drawn in all of them.

A figure is a plotly dictionary with `id`, `title`, `data`, `layout`, and if need be `note` (a sentence below the
title), `height` (pixels) and `wide` (true: takes the page's whole width).

Colours are names of the page's style variables (`@c0`, `@ink`), which the page's script replaces, so that one file
serves light and dark. `@c0` to `@c6` tell things apart; `@s0` to `@s6`, blue to amber, are in order. A trace's `meta`
holds the id of its config, and true for the line of a single seed.
"""

import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from sweep_service.report.model import ConfigRow, Report
from sweep_service.sweep.records import Role

Figure = dict[str, Any]

NUM_COLOURS: Final = 7
"""Number of colours in each of the two palettes."""
DASHES: Final = {
    "solid": (),
    "dash": (7, 3),
    "dot": (2.5, 2.5),
    "dashdot": (7, 3, 2, 3),
    "longdash": (11, 3),
    "longdashdot": (11, 3, 2, 3),
}
"""Lengths in pixels of dashes and gaps, by plotly's name, for a line 3 pixels wide."""
MOST_SHOWN: Final = 20
"""With more configs than this, only confirmed ones and comparators are shown at first."""

TITLES: Final = {
    "entropy": ("Policy entropy", "nats per token"),
    "eval/avg_at_k": ("Validation accuracy, avg@k", "avg@k"),
    "eval/pass_at_k": ("Validation pass@k", "pass@k"),
    "eval/reward_mean": ("Validation reward", "mean reward"),
    "reward/mean": ("Training reward", "mean reward"),
    "share/na_lp": ("NA&LP tokens (scaled by β1)", "share of tokens"),
    "share/pa_lp": ("PA&LP tokens (scaled by β2)", "share of tokens"),
    "clip_fraction/low": ("Ratio below 1 - ε_low", "share of tokens"),
    "clip_fraction/high": ("Ratio above 1 + ε_high", "share of tokens"),
    "ppo_kl": ("KL(old ‖ new), k1 estimate", "nats"),
    "grad_norm": ("Gradient norm before clipping", "norm"),
    "completion/length_mean": ("Completion length", "tokens"),
}
"""Title and unit of each metric."""

REGION_NAMES: Final = {
    "inside": "inside the clip range",
    "na_lp": "NA&LP (β1)",
    "pa_lp": "PA&LP (β2)",
    "na_high": "NA, high ratio",
    "pa_low": "PA, low ratio",
}
"""Token regions in the order in which they are stacked; not yet escaped by `text`."""
REGION_COLOURS: Final = {"inside": "@muted", "na_lp": "@c0", "pa_lp": "@c1", "na_high": "@c2", "pa_low": "@c3"}
_FENCE: Final = 3.0
"""A value this many interquartile ranges below the lower quartile is an extreme outlier."""


@dataclass(frozen=True)
class ConfigStyle:
    """The line in which a config is drawn in every figure, and whether it is shown at first."""

    colour: str
    dash: str
    shown: bool


def config_styles(report: Report) -> dict[str, ConfigStyle]:
    """Colour configs by the loss if it varies, else by beta1's value, or the first parameter's; dash them by the rest.

    Comparators are neutral. With more values than colours, the configs shown at first have a colour each and the rest
    have none.
    """
    space = sorted((row for row in report.configs if Role.SPACE in row.roles), key=lambda row: row.number)
    names = ("loss.name", "loss.beta1", *(space[0].params if space else ()))
    first = next((name for name in names if len({repr(row.params.get(name)) for row in space}) > 1), None)
    values, rests = sorted({_key(row, first) for row in space}), sorted({_rest(row, first) for row in space})
    many = len(report.configs) > MOST_SHOWN
    shown = {row.id for row in report.configs if not many or row.confirm or Role.SPACE not in row.roles}
    drawn = [row.id for row in space if row.id in shown]
    styles: dict[str, ConfigStyle] = {}
    for row in report.configs:
        if Role.BASELINE in row.roles:
            colour, dash = "@ink", 0
        elif Role.SPACE not in row.roles:
            colour, dash = "@muted", 1 if Role.DAPO in row.roles else 2
        elif len(values) <= NUM_COLOURS:
            place = values.index(_key(row, first))
            colour = f"@c{place}" if any(name for _, name in values) else ordered_colour(place, len(values))
            dash = rests.index(_rest(row, first))
        elif row.id in shown:
            dash, place = divmod(drawn.index(row.id), NUM_COLOURS)
            colour = f"@c{place}"
        else:
            colour, dash = "@muted", 0
        styles[row.id] = ConfigStyle(colour, list(DASHES)[dash % len(DASHES)], row.id in shown)
    return styles


def contrasted_configs(report: Report) -> list[tuple[str, ConfigRow]]:
    """Return the best config, the baseline and the worst of the space by its tune mean, each once, with a title."""
    rows = {row.id: row for row in report.configs}
    space = [row for row in report.configs if Role.SPACE in row.roles and row.tune]
    contrast = {
        "best": rows.get(report.best.config_id) if report.best else None,
        "baseline": next((row for row in report.configs if Role.BASELINE in row.roles), None),
        "worst": min(space, key=lambda row: (row.tune.mean if row.tune else 0.0, row.number), default=None),
    }
    titled: dict[str, tuple[str, ConfigRow]] = {}
    for word, row in contrast.items():
        if row:
            titled.setdefault(row.id, (row.label if row.label.startswith(word) else f"{word}: {row.label}", row))
    return list(titled.values())


def ordered_colour(place: int, of: int) -> str:
    """Return the colour of the item at index `place` among `of` ordered items."""
    return f"@s{round(place * (NUM_COLOURS - 1) / max(1, of - 1))}"


def _key(row: ConfigRow, name: str | None) -> tuple[float, str]:
    value = row.params.get(name) if name else None
    return (float(value), "") if isinstance(value, int | float) else (0.0, str(value))


def _rest(row: ConfigRow, name: str | None) -> str:
    return repr([value for other, value in row.params.items() if other != name])


def text(value: str) -> str:
    """Escape a user's text so that plotly shows it literally: its labels understand some HTML."""
    return html.escape(value, quote=False)


def lower_fence(values: Sequence[float]) -> float:
    """Return the lowest value that is not an extreme outlier, so that a collapsed config does not stretch the axis."""
    lower, upper = np.quantile(values, [0.25, 0.75])
    fence = lower - _FENCE * (upper - lower) if upper > lower else min(values)
    return min(value for value in values if value >= fence)


def mean_of(values: Iterable[float | None]) -> float | None:
    """Return the mean of the values that there are, with four digits; None without any."""
    present = [value for value in values if value is not None]
    return float(f"{sum(present) / len(present):.4g}") if present else None


def scatter(mode: str, x: Sequence[Any], y: Sequence[Any], **settings: Any) -> Figure:
    """Return a trace of points, lines or texts, with these further settings of plotly."""
    return {"type": "scatter", "mode": mode, "x": x, "y": y, **settings}


def with_gaps(lines: Iterable[tuple[Iterable[Any], Iterable[Any]]]) -> tuple[list[Any], list[Any]]:
    """Return x and y of several lines as one trace, for there may be too many for a trace each; None is a gap."""
    xs: list[Any] = []
    ys: list[Any] = []
    for line_xs, line_ys in lines:
        xs += [*line_xs, None]
        ys += [*line_ys, None]
    return xs[:-1], ys[:-1]


def entropy_plane(id_: str, title: str, note: str, traces: list[Figure], y: str) -> Figure:
    """Return a figure of points by the entropy that their policies have kept; `y` is the title of the y axis."""
    layout = {
        "xaxis": {"title": {"text": "entropy at the end / at the start"}, "zeroline": False},
        "yaxis": {"title": {"text": y}, "zeroline": False},
        "hovermode": "closest",
    }
    return {"id": id_, "title": title, "note": note, "data": traces, "layout": layout, "height": 380}


def legend() -> Figure:
    """Return a legend in one row above the figure, for traces with `showlegend`."""
    return {
        "orientation": "h", "x": 0, "xanchor": "left", "y": 1.0, "yanchor": "bottom", "bgcolor": "rgba(0,0,0,0)",
        "itemclick": False, "itemdoubleclick": False,
    }  # fmt: skip
