"""For the tests of figures: reports with grid and tradeoff as a test wants them, and what every figure must be."""

import json
import re
from collections.abc import Sequence
from typing import Any

from sweep_service.report.figures import Figure
from sweep_service.report.model import Cell, Grid, Report, TradeoffPoint

MARKUP = "<b>x</b> <script>alert(1)</script> $\\beta_1$ %{x} &amp;"
"""Text of a user that would act in HTML, in plotly's own markup and in its templates."""


def checked(figures: Sequence[Figure]) -> dict[str, Figure]:
    """Figures by their ids, if the page can embed them, and they show no text of a user as markup; the page escapes
    titles and notes."""
    by_id = {figure["id"]: figure for figure in figures}
    assert len(by_id) == len(figures)
    for figure in figures:
        dumped = json.dumps({"data": figure["data"], "layout": figure["layout"]}, allow_nan=False)
        assert "<script" not in dumped
        assert "<b>x" not in dumped
        assert "%{x} &" not in "".join(re.findall(r'"hovertemplate": "(.*?)"', dumped))
    return by_id


def axes(figure: Figure, kind: str) -> list[dict[str, Any]]:
    """All x or y axes of a figure's layout, in the order of their panels."""
    names = [name for name in figure["layout"] if name.startswith(f"{kind}axis")]
    return [figure["layout"][name] for name in sorted(names, key=lambda name: int(name[5:] or 1))]


def cell(x: str, y: str, mean: float | None, facet: str | None = None, **changed: Any) -> Cell:
    """A cell with three of three seeds, or a hole that nobody planned."""
    seeds = 0 if mean is None else 3
    fields: dict[str, Any] = {"x": x, "y": y, "facet": facet, "mean": mean, "n": seeds, "planned": seeds}
    rest: dict[str, Any] = {"config_id": None, "half_width": 0.012, "confirm": None, "entropy_kept": 0.5}
    return Cell(**(fields | rest | changed))


def grid(cells: Sequence[Cell], **changed: Any) -> Grid:
    """Over beta1 and beta2, with the values that its cells have."""
    fields: dict[str, Any] = {
        "x": "loss.beta1",
        "y": "loss.beta2",
        "facet": None,
        "xs": list(dict.fromkeys(cell.x for cell in cells)),
        "ys": list(dict.fromkeys(cell.y for cell in cells)),
        "facets": list(dict.fromkeys(cell.facet for cell in cells if cell.facet is not None)),
        "cells": list(cells),
        "others": [],
    }
    return Grid(**(fields | changed))


def point(config_id: str, objective: float, kept: float, on_front: bool = True) -> TradeoffPoint:
    """A config in the plane, with intervals of ± 0.01 and ± 0.02."""
    return TradeoffPoint(
        config_id=config_id,
        objective=objective,
        objective_low=objective - 0.01,
        objective_high=objective + 0.01,
        entropy_kept=kept,
        entropy_low=kept - 0.02,
        entropy_high=kept + 0.02,
        n=4,
        on_front=on_front,
    )


def with_parts(report: Report, **parts: Any) -> Report:
    """The report with other parts."""
    return report.model_copy(update=parts)
