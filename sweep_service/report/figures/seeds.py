"""Every seed as a dot, with lines to its pair."""

from collections.abc import Mapping, Sequence

from sweep_service.records import Role
from sweep_service.report.figures.common import Figure, Look, text
from sweep_service.report.model import ConfigRow, Report, SeedValue, StageResult


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


def seed_figures(report: Report, look: Mapping[str, Look]) -> list[Figure]:
    """Every seed's objective."""
    found = seed_figure(report, look)
    return [found] if found else []
