"""Scores on benchmarks: pass@k beside the initial model, and every trial's mean against the entropy that it kept."""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Final, NamedTuple

from sweep_service.report.figures.figure_style import (
    ConfigStyle,
    Figure,
    entropy_plane,
    legend,
    lower_fence,
    scatter,
    text,
)
from sweep_service.report.figures.point_names import NamedPoint, point_names
from sweep_service.report.formatting import count
from sweep_service.report.model import BenchmarkCell, BenchmarkRow, BenchmarkTable, ConfigRow, Report, TrialRow
from sweep_service.sweep.records import Role, Stage

_NOTE: Final = (
    "One point a trial, measured after its last update; large: means of configs. Dotted, with a star: the initial "
    "model's score; its entropy is 1 by definition. Points that lie lower the further left they are say that trials "
    "which lost entropy also do worse here; they do not say that entropy is the reason."
)
_MOST_NAMED: Final = 8


class _Point(NamedTuple):
    """A trial in the plane."""

    trial: TrialRow
    kept: float
    mean: float


class _Plane(NamedTuple):
    """The heights of a plane: scores below `lowest` are drawn at `edge`."""

    lowest: float
    edge: float

    def height(self, mean: float) -> float:
        """Return the height at which a score is drawn."""
        return mean if mean >= self.lowest else self.edge


def pass_figures(report: Report, styles: Mapping[str, ConfigStyle]) -> list[Figure]:
    """Draw one figure for each benchmark on which models were sampled more than once a problem."""
    table = report.benchmarks
    if table is None:
        return []
    figures: list[Figure] = []
    for place, column in enumerate(table.columns):
        cells = [(row, cell) for row in table.rows if (cell := row.cells[place]) and len(cell.pass_at_k) > 1]
        if column.benchmark is not None and cells:
            sizes = sorted({k for _, cell in cells for k in cell.pass_at_k})
            traces = [_line(row, cell, styles[row.config_id]) for row, cell in cells]
            figures.append(
                {
                    "id": f"pass-at-k-{place}",
                    "title": f"pass@k on {column.benchmark}",
                    "data": traces,
                    "layout": {
                        "xaxis": {"title": {"text": "k"}, "type": "log", "tickvals": sizes, "ticktext": sizes},
                        "yaxis": {"title": {"text": "pass@k"}},
                        "hovermode": "closest",
                        "legend": legend(),
                    },
                }
            )
    return figures


def _line(row: BenchmarkRow, cell: BenchmarkCell, style: ConfigStyle) -> Figure:
    colour, dash = ("@muted", "dot") if row.initial else (style.colour, style.dash)
    trace = scatter(
        "lines+markers",
        sorted(cell.pass_at_k),
        [round(cell.pass_at_k[k], 5) for k in sorted(cell.pass_at_k)],
        name=text(row.label),
        line={"color": colour, "dash": dash, "width": 2},
        hovertemplate="%{fullData.name}<br>pass@%{x}: %{y:.3f}<extra></extra>",
    )
    return trace | ({"showlegend": True} if row.initial else {"meta": {"config": row.config_id, "seed": False}})


def benchmark_entropy_figures(report: Report, styles: Mapping[str, ConfigStyle]) -> list[Figure]:
    """Draw the trials of the table of benchmarks, where at least one has both coordinates."""
    table = report.benchmarks
    if table is None or not (points := _points(report, table)):
        return []
    widths, heights = [point.kept for point in points], [point.mean for point in points]
    lowest = lower_fence(heights)  # a collapsed config does not stretch the plane
    plane = _Plane(lowest, lowest - 0.08 * (max(heights) - lowest))
    initial = [(row, cell.mean) for row in table.rows if row.initial and (cell := row.cells[-1])]
    traces = [trace for row, height in initial for trace in _initial(row, height, min(widths), max(widths))]
    by_config: dict[str, list[_Point]] = {}
    for point in points:
        by_config.setdefault(point.trial.config_id, []).append(point)
    rows = {row.id: row for row in report.configs}
    for config_id, own in by_config.items():
        traces += _config(rows[config_id], own, styles[config_id], plane)
    xs = [*widths, *(max(widths) for _ in initial)]
    ys = [*map(plane.height, heights), *(height for _, height in initial)]
    traces += point_names(_named(by_config, rows, plane), xs, ys)
    what = "mean over benchmarks" if len(table.columns) > 1 else str(table.columns[0].benchmark)
    note = _NOTE
    if any(point.trial.stage is Stage.TUNE for point in points):
        note += " Rings: tune seeds, which chose the configs."
    if min(heights) < lowest:
        note += " Triangles at the lower edge: far below."
    title = "Benchmarks against the entropy kept"
    return [entropy_plane("benchmark-entropy", title, note, traces, f"avg@k, {text(what)}")]


def _points(report: Report, table: BenchmarkTable) -> list[_Point]:
    """Return the trials of each config's stage in the table that have kept entropy and every benchmark."""
    stages = {row.config_id: row.stage for row in table.rows if not row.initial}
    return [
        _Point(trial, trial.entropy_kept, fmean(trial.benchmarks[name] for name in table.names))
        for trial in report.trials
        if trial.stage is stages.get(trial.config_id)
        and trial.entropy_kept is not None
        and all(name in trial.benchmarks for name in table.names)
    ]


def _initial(row: BenchmarkRow, height: float, left: float, right: float) -> list[Figure]:
    """Draw the score of a model before any update as a line over the whole width, with a star on it.

    The star stands at the end towards 1 where no trial is so far, since a cloud far away from 1 would shrink to a spot.
    """
    star = scatter(
        "markers+text",
        [min(max(1.0, left), right)],
        [height],
        marker={"size": 13, "color": "@muted", "symbol": "star"},
        text=[f"{text(row.label)}, entropy 1  "],
        textposition="bottom left",
        textfont={"size": 11, "color": "@ink"},
        hovertemplate="%{text}<br>%{y:.3f}<extra></extra>",
    )
    line = {"color": "@muted", "width": 1.5, "dash": "dot"}
    return [scatter("lines", [left, right], [height, height], hoverinfo="skip", line=line), star]


def _config(row: ConfigRow, points: Sequence[_Point], style: ConfigStyle, plane: _Plane) -> list[Figure]:
    """Draw a config's trials, and their mean if there are several."""
    symbol = "circle" if Role.SPACE in row.roles else "diamond"
    meta = {"config": row.id, "seed": False}
    ring = "-open" if points[0].trial.stage is Stage.TUNE else ""
    dots = scatter(
        "markers",
        [point.kept for point in points],
        [plane.height(point.mean) for point in points],
        marker={
            "size": 7,
            "color": style.colour,
            "symbol": [f"{symbol}{ring}" if point.mean >= plane.lowest else "triangle-down" for point in points],
        },
        opacity=0.55,
        text=[_hover(row, point) for point in points],
        hovertemplate="%{text}<extra></extra>",
        meta=meta,
    )
    if len(points) == 1:
        return [dots]
    kept, mean = _centre(points)
    about = f"<b>{text(row.label)}</b><br>mean of {count(len(points), 'trial')}: {mean:.3f}<br>entropy kept {kept:.2f}"
    centre = scatter(
        "markers",
        [kept],
        [plane.height(mean)],
        marker={"size": 14, "color": style.colour, "symbol": symbol, "line": {"color": "@card", "width": 1.5}},
        text=[about],
        hovertemplate="%{text}<extra></extra>",
        meta=meta,
    )
    return [dots, centre]


def _centre(points: Sequence[_Point]) -> tuple[float, float]:
    """Return the means of entropy kept and score."""
    return fmean(point.kept for point in points), fmean(point.mean for point in points)


def _named(by_config: Mapping[str, Sequence[_Point]], rows: Mapping[str, ConfigRow], plane: _Plane) -> list[NamedPoint]:
    """Return the points to name, the baseline first, then the best: all configs of few, of many the baseline."""
    if len(by_config) > _MOST_NAMED:
        by_config = {id_: points for id_, points in by_config.items() if Role.BASELINE in rows[id_].roles}
    centres = {id_: _centre(points) for id_, points in by_config.items()}
    ordered = sorted(centres, key=lambda id_: (Role.BASELINE not in rows[id_].roles, -centres[id_][1]))
    return [NamedPoint(centres[id_][0], plane.height(centres[id_][1]), rows[id_].label, id_) for id_ in ordered]


def _hover(row: ConfigRow, point: _Point) -> str:
    scores = "".join(f"<br>{text(name)} {score:.3f}" for name, score in point.trial.benchmarks.items())
    if len(point.trial.benchmarks) > 1:
        scores += f"<br>mean {point.mean:.3f}"
    where = f"{point.trial.stage} seed {point.trial.seed}"
    return f"<b>{text(row.label)}</b><br>{where}{scores}<br>entropy kept {point.kept:.2f}"
