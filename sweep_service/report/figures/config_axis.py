"""A y axis with a config a row, the first on top: its labels stay readable on a phone."""

from collections.abc import Sequence
from typing import Final

from sweep_service.report.figures.figure_style import Figure, text
from sweep_service.report.model import ConfigRow

_WIDTH: Final = 20
"""Letters a line of a label; a longer word is cut."""
_MARGINS: Final = 84
"""Pixels for the x axis and around the plot."""
_ROW: Final = 38
_LINE: Final = 15


def config_axis(rows: Sequence[ConfigRow]) -> Figure:
    """The axis's layout; the row at position i stands at y = i."""
    return {
        "tickvals": list(range(len(rows))),
        "ticktext": ["<br>".join(map(text, wrapped(row.label))) for row in rows],
        "range": [len(rows) - 0.5, -0.5],
        "showgrid": False,
        "zeroline": False,
        "fixedrange": True,
    }


def config_height(rows: Sequence[ConfigRow]) -> int:
    """Pixels that a figure with this axis needs."""
    lines = max((len(wrapped(row.label)) for row in rows), default=1)
    return _MARGINS + len(rows) * max(_ROW, 6 + _LINE * lines)


def wrapped(label: str) -> list[str]:
    """A config's label in lines, broken between parameters."""
    lines: list[str] = []
    for word in label.split(" "):
        short = word if len(word) <= _WIDTH else word[: _WIDTH - 1] + "…"
        if lines and len(lines[-1]) + 1 + len(short) <= _WIDTH:
            lines[-1] += f" {short}"
        else:
            lines.append(short)
    return lines
