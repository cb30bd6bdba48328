"""Several panels in one figure: the places of their axes, and their titles."""

from collections.abc import Sequence
from typing import Final

from sweep_service.report.figures.figure_style import Figure, text

_MARGINS: Final = 54
"""Height in pixels that the page keeps free above and below the axes of every figure."""
_TITLE: Final = 24
"""Height in pixels of a panel's title."""
_TICKS: Final = 22
"""Height in pixels between rows of panels, for tick labels."""
_GAP: Final = 0.035
"""Gap between columns as a share of the width."""


def axis(kind: str, panel: int) -> str:
    """Return the name of a panel's axis: for a trace `x`, `x2`, … of kind `x`; in the layout `xaxis`, `xaxis2`, …"""
    return kind if panel == 0 else f"{kind}{panel + 1}"


def axes_of(panel: int) -> Figure:
    """Return the entries by which a trace finds its panel's two axes."""
    return {"xaxis": axis("x", panel), "yaxis": axis("y", panel)}


def panels(titles: Sequence[str], columns: int, height: int, x: Figure, y: Figure) -> Figure:
    """Lay out a panel for each title, row by row, all on the same ranges.

    Args:
        titles: titles of the panels, not escaped.
        columns: number of panels in a row.
        height: height of the whole figure, pixels.
        x: settings of all x axes; the title stands below the lowest panels.
        y: settings of all y axes; the title stands left of the leftmost panels.
    """
    rows = -(-len(titles) // columns)
    inner = height - _MARGINS
    block, wide = 1 / rows, (1 - (columns - 1) * _GAP) / columns
    layout: Figure = {"annotations": []}
    for number, title in enumerate(titles):
        row, column = divmod(number, columns)
        left, top = column * (wide + _GAP), 1 - row * block - _TITLE / inner
        bottom = 1 - (row + 1) * block + (_TICKS / inner if row < rows - 1 else 0)
        lowest = number + columns >= len(titles)
        layout[axis("xaxis", number)] = {
            **x, "domain": [round(left, 4), round(left + wide, 4)], "anchor": axis("y", number), "matches": "x",
            "showticklabels": lowest, "title": x["title"] if lowest and row == rows - 1 else {"text": ""},
        }  # fmt: skip
        layout[axis("yaxis", number)] = {
            **y, "domain": [round(bottom, 4), round(top, 4)], "anchor": axis("x", number), "matches": "y",
            "showticklabels": column == 0, "title": y["title"] if column == 0 else {"text": ""},
        }  # fmt: skip
        layout["annotations"].append(
            {
                "xref": "paper", "yref": "paper", "x": round(left, 4), "y": round(top, 4), "xanchor": "left",
                "yanchor": "bottom", "text": f"<b>{text(title)}</b>", "font": {"size": 12, "color": "@ink"},
                "showarrow": False,
            }
        )  # fmt: skip
    for kind in ("xaxis", "yaxis"):
        del layout[kind]["matches"]
    return layout
