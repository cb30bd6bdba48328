"""The objective against the entropy that is left, with the Pareto front."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from sweep_service.report.figures.figure_style import ConfigStyle, Figure, entropy_plane, lower_fence, scatter, text
from sweep_service.report.figures.point_names import NamedPoint, point_names
from sweep_service.report.model import ConfigRow, Report, TradeoffPoint
from sweep_service.report.parts.tradeoff import best_of_both
from sweep_service.sweep.records import Role

_MOST_NAMED: Final = 8


def tradeoff_figures(report: Report, styles: Mapping[str, ConfigStyle]) -> list[Figure]:
    """Draw configs as points in the plane; those far below all others stand at the lower edge, as triangles."""
    if not report.tradeoff:
        return []
    rows = {row.id: row for row in report.configs}
    # the front is of those of which no run was ruined, since a ruined policy may have much entropy
    front = best_of_both([point for point in report.tradeoff if not rows[point.config_id].ruined])
    points = sorted(
        (point.model_copy(update={"on_front": point.config_id in front}) for point in report.tradeoff),
        key=lambda point: (point.on_front, -rows[point.config_id].number),
    )
    objectives = [point.objective for point in points]
    lowest = lower_fence([point.objective for point in points if not rows[point.config_id].ruined] or objectives)
    # points far below the others stand under all others and their crosses
    near = [point for point in points if point.objective >= lowest]
    low = min(point.objective if point.objective_low is None else point.objective_low for point in near)
    high = max(point.objective if point.objective_high is None else point.objective_high for point in near)
    edge = low - 0.08 * (high - low)
    stairs = sorted((point for point in points if point.on_front), key=lambda point: point.entropy_kept)
    dotted = {"color": "@muted", "width": 1.5, "dash": "dot", "shape": "vh"}
    traces = [_scatter("lines", stairs, edge, line=dotted, hoverinfo="skip")]
    others = [point for point in points if not styles[point.config_id].shown]
    if others:
        dots = {"size": 5, "color": "@muted", "symbol": [_symbol(point, edge) for point in others]}
        traces.append(_scatter("markers", others, edge, marker=dots, opacity=0.45, **_hover(others, rows)))
    traces += [_point(point, rows, styles[point.config_id], edge) for point in points]
    named = [
        NamedPoint(point.entropy_kept, max(point.objective, edge), rows[point.config_id].label, point.config_id)
        for point in _named(points, rows, styles)
    ]
    xs, ys = [point.entropy_kept for point in points], [max(objective, edge) for objective in objectives]
    traces += point_names(named, xs, ys)
    note = (
        "Up: better; right: more of the entropy kept. Dotted: the Pareto front, of configs that no other beats in one "
        "and equals in the other, without those of which a run was ruined; the rest is faint. Means over confirm "
        "seeds where there are any, else over tune seeds; crosses: their 95 % intervals, none for an objective on "
        "tune seeds, since they chose the best."
    )
    if min(objectives) < lowest:
        note += " Triangles at the lower edge: far below."
    return [entropy_plane("tradeoff", "Objective against the entropy kept", note, traces, "objective")]


def _named(
    points: Sequence[TradeoffPoint], rows: Mapping[str, ConfigRow], styles: Mapping[str, ConfigStyle]
) -> list[TradeoffPoint]:
    """Return the points to name, the baseline and the best first: of many, the baseline, and the front if short."""
    baselines = {row.id for row in rows.values() if Role.BASELINE in row.roles}
    drawn = [point for point in points if styles[point.config_id].shown]
    if len(drawn) > _MOST_NAMED:
        few = sum(point.on_front for point in drawn) <= _MOST_NAMED
        drawn = [point for point in drawn if (few and point.on_front) or point.config_id in baselines]
    return sorted(drawn, key=lambda point: (point.config_id not in baselines, -point.objective))


def _scatter(mode: str, points: Sequence[TradeoffPoint], lowest: float, **settings: Any) -> Figure:
    """Draw points in the plane, none below `lowest`."""
    return scatter(mode, [p.entropy_kept for p in points], [max(p.objective, lowest) for p in points], **settings)


def _symbol(point: TradeoffPoint, lowest: float) -> str:
    return "circle" if point.objective >= lowest else "triangle-down"


def _hover(points: Sequence[TradeoffPoint], rows: Mapping[str, ConfigRow]) -> Figure:
    texts = [
        f"<b>{text(rows[point.config_id].label)}</b><br>objective {point.objective:.3f}<br>"
        f"entropy kept {point.entropy_kept:.2f}<br>{point.n} seeds"
        for point in points
    ]
    return {"text": texts, "hovertemplate": "%{text}<extra></extra>"}


def _point(point: TradeoffPoint, rows: Mapping[str, ConfigRow], style: ConfigStyle, lowest: float) -> Figure:
    def cross(value: float, low: float | None, high: float | None) -> Figure:
        if low is None or high is None:
            return {"visible": False}
        return {
            "type": "data", "symmetric": False, "array": [high - value], "arrayminus": [value - low],
            "color": style.colour, "thickness": 1.2, "width": 0,
        }  # fmt: skip

    inside, in_space = point.objective >= lowest, Role.SPACE in rows[point.config_id].roles
    up = cross(point.objective, point.objective_low, point.objective_high) if inside else {"visible": False}
    symbol = _symbol(point, lowest) if in_space or not inside else "diamond"
    return _scatter(
        "markers",
        [point],
        lowest,
        marker={"size": 11 if point.on_front else 8, "color": style.colour, "symbol": symbol},
        error_x=cross(point.entropy_kept, point.entropy_low, point.entropy_high),
        error_y=up,
        opacity=1 if point.on_front else 0.4,
        **_hover([point], rows),
        meta={"config": point.config_id, "seed": False},
    )
