"""The objective over two parameters: mean, interval and number of seeds in each cell."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from sweep_service.report.figures.figure_style import ConfigStyle, Figure, lower_fence, scatter, text
from sweep_service.report.formatting import number
from sweep_service.report.model import Cell, Grid, Report
from sweep_service.sweep.labels import short_name

_SCALE: Final = (
    "#440154", "#482878", "#3e4989", "#31688e", "#26828e", "#1f9e89", "#35b779", "#6ece58", "#b5de2b", "#fde725",
)  # fmt: skip
"""Viridis, which is ordered by lightness, for colour-blind eyes too; the same in light and dark, as its texts are."""
_MOST_BESIDE: Final = 6
"""Largest number of columns that fit half of the page's width."""
_MANY_ROWS: Final = 8
_AROUND: Final = 64
"""Height in pixels above and below the cells."""

Words = Callable[[Cell], list[str]]


@dataclass(frozen=True)
class _Quantity:
    """A quantity that a heat map shows."""

    id: str
    title: str
    note: str
    value: Callable[[Cell], float | None]
    words: Words
    """Returns the lines of text in a cell."""

    def short(self, cell: Cell) -> list[str]:
        """Return the text that fits a cell on a narrow screen: `.84`."""
        return [number(self.value(cell), 2).removeprefix("0")]


def heatmap_figures(report: Report, _styles: Mapping[str, ConfigStyle]) -> list[Figure]:
    """Draw the objective over two parameters, and the entropy that is left; a heat map for each value of the third."""
    grid = report.grid
    if grid is None or not any(cell.mean is not None for cell in grid.cells):
        return []
    best = report.best.config_id if report.best else None
    quantities = [
        _Quantity("objective", "Objective", _objective_note(report, grid), _mean, lambda cell: _words(cell, best)),
        _Quantity("kept", "Entropy kept", _KEPT, lambda cell: cell.entropy_kept, _kept_words),
    ]
    made = [quantity for quantity in quantities if _values(grid, quantity.value)]
    beside = len(grid.xs) <= _MOST_BESIDE
    return [
        _figure(grid, quantity, place, _pixels(grid, made if beside else [quantity])) | {"wide": not beside}
        for place in range(max(1, len(grid.facets)))
        for quantity in made
    ]


_KEPT: Final = "Entropy at the end divided by entropy at the start, mean over trials. Hatched: no result."


def _objective_note(report: Report, grid: Grid) -> str:
    lines = [
        "Mean over tune seeds, ± half of its 95 % interval, n seeds. They chose the best config and so flatter it."
    ]
    if any(cell.confirm is not None for cell in grid.cells):
        lines.append("Framed: confirmed, ✓ its mean over fresh seeds.")
    if report.best:
        lines.append("★: best config.")
    if grid.others:
        lines.append(f"A cell averages over {', '.join(short_name(name) for name in grid.others)}.")
    lowest, bottom = min(_values(grid, _mean)), lower_fence(_values(grid, _mean))
    if bottom > lowest:
        lines.append(f"Cells below {number(bottom, 2)} have one colour.")
    return " ".join([*lines, "Hatched: no result."])


def _mean(cell: Cell) -> float | None:
    return cell.mean


def _words(cell: Cell, best: str | None) -> list[str]:
    star = "★ " if best is not None and cell.config_id == best else ""
    lines = [f"<b>{star}{number(cell.mean)}</b>"]
    lines += [f"±{number(cell.half_width)}"] if cell.half_width is not None else []
    lines += [f"n {_seeds(cell)}"]
    return lines + ([f"✓ {number(cell.confirm)}"] if cell.confirm is not None else [])


def _kept_words(cell: Cell) -> list[str]:
    return [f"<b>{number(cell.entropy_kept, 2)}</b>"]


def _seeds(cell: Cell) -> str:
    return str(cell.n) if cell.n == cell.planned else f"{cell.n}/{cell.planned}"


def _values(grid: Grid, value: Callable[[Cell], float | None]) -> list[float]:
    return [quantity for cell in grid.cells if (quantity := value(cell)) is not None]


def _pixels(grid: Grid, beside: Sequence[_Quantity]) -> int:
    """Return a cell's height in figures that stand side by side."""
    lines = max(len(quantity.words(cell)) for quantity in beside for cell in grid.cells)
    return max(34, 16 * lines + (12 if len(grid.ys) <= _MANY_ROWS else 6))


def _figure(grid: Grid, quantity: _Quantity, place: int, pixels: int) -> Figure:
    """Draw the heat map of one facet; the first one carries the explanation."""
    facet = grid.facets[place] if grid.facets else None
    where = f", {short_name(grid.facet)} = {facet}" if grid.facet and facet is not None else ""
    cells = [cell for cell in grid.cells if cell.facet == facet]
    figure: Figure = {
        "id": f"grid-{quantity.id}-{place}",
        "title": f"{quantity.title} over {short_name(grid.x)} and {short_name(grid.y)}{where}",
        **({"note": quantity.note} if place == 0 else {}),
        "data": _traces(grid, cells, quantity, quantity.words, 12),
        "layout": _layout(grid) | {"shapes": _frames(grid, cells) if quantity.id == "objective" else []},
        "height": _AROUND + len(grid.ys) * pixels,
    }
    if len(grid.xs) <= _MOST_BESIDE:
        return figure | {"narrow": {"data": _traces(grid, cells, quantity, quantity.words, 10)}}
    short = _traces(grid, cells, quantity, quantity.short, 9)
    return figure | {"narrow": {"data": short, "height": _AROUND + len(grid.ys) * 34}}


def _traces(grid: Grid, cells: Sequence[Cell], quantity: _Quantity, words: Words, size: int) -> list[Figure]:
    by_place = {(cell.y, cell.x): cell for cell in cells}
    table = [[by_place.get((y, x)) for x in grid.xs] for y in grid.ys]
    low, high = _range(grid, quantity.value)
    heat: Figure = {
        "type": "heatmap",
        "z": [[_rounded(quantity.value(cell)) if cell else None for cell in row] for row in table],
        "text": [[_hover(grid, cell) if cell else "" for cell in row] for row in table],
        "hovertemplate": "%{text}<extra></extra>",
        "hoverongaps": False,
        "zmin": low,
        "zmax": high,
        "colorscale": [[round(at / (len(_SCALE) - 1), 4), colour] for at, colour in enumerate(_SCALE)],
        "showscale": False,
        "xgap": 2,
        "ygap": 2,
    }
    full: list[tuple[int, int, Cell, float]] = []
    holes: list[tuple[int, int, Cell | None]] = []
    for y, row in enumerate(table):
        for x, cell in enumerate(row):
            value = quantity.value(cell) if cell else None
            if cell is None or value is None:
                holes.append((x, y, cell))
            else:
                full.append((x, y, cell, value))
    texts = {"type": "scatter", "mode": "text", "hoverinfo": "skip"}
    label = texts | {
        "x": [x for x, _, _, _ in full],
        "y": [y for _, y, _, _ in full],
        "text": ["<br>".join(words(cell)) for _, _, cell, _ in full],
        "textfont": {"size": size, "color": [_on(value, low, high) for _, _, _, value in full]},
    }
    failed = [(x, y, cell) for x, y, cell in holes if cell and cell.planned]
    missing = texts | {
        "x": [x for x, _, _ in failed],
        "y": [y for _, y, _ in failed],
        "text": [f"<b>n {_seeds(cell)}</b>" for _, _, cell in failed],
        "textfont": {"size": size, "color": "@ink"},
    }
    return [heat, *([_hatch([(x, y) for x, y, _ in holes])] if holes else []), label, *([missing] if failed else [])]


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def _range(grid: Grid, value: Callable[[Cell], float | None]) -> tuple[float, float]:
    """Return the values at which colours begin and end, the same in every facet."""
    values = _values(grid, value)
    low, high = lower_fence(values), max(values)
    return low, high if high > low else low + 1


def _hover(grid: Grid, cell: Cell) -> str:
    place = [f"{short_name(grid.x)} = {cell.x}", f"{short_name(grid.y)} = {cell.y}"]
    place += [f"{short_name(grid.facet)} = {cell.facet}"] if grid.facet and cell.facet is not None else []
    lines = [", ".join(place), f"tune mean {number(cell.mean)}, {_seeds(cell)} seeds"]
    lines += [f"confirm mean {number(cell.confirm)}"] if cell.confirm is not None else []
    lines += [f"entropy kept {number(cell.entropy_kept, 2)}"] if cell.entropy_kept is not None else []
    return "<br>".join(text(line) for line in lines)


def _hatch(places: Sequence[tuple[int, int]]) -> Figure:
    """Draw slanted lines over empty cells: y = x + offset, cut at the cell's edges."""
    xs: list[float | None] = []
    ys: list[float | None] = []
    for x, y in places:
        for offset in (-0.72, -0.48, -0.24, 0.0, 0.24, 0.48, 0.72):
            start, end = max(-0.47, -0.47 - offset), min(0.47, 0.47 - offset)
            xs += [round(x + start, 3), round(x + end, 3), None]
            ys += [round(y + start + offset, 3), round(y + end + offset, 3), None]
    line = {"color": "@line", "width": 1.2}
    return scatter("lines", xs[:-1], ys[:-1], line=line, hoverinfo="skip")


def _on(value: float, low: float, high: float) -> str:
    """Return white or black, whichever can be read on the cell's colour."""
    place = min(max((value - low) / (high - low), 0), 1) * (len(_SCALE) - 1)
    at = min(int(place), len(_SCALE) - 2)
    below, above = list(pairwise(_SCALE))[at]
    rgb = [
        (int(a, 16) * (at + 1 - place) + int(b, 16) * (place - at)) / 255
        for a, b in zip(_parts(below), _parts(above), strict=True)
    ]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in rgb]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return "#ffffff" if luminance < 0.18 else "#10131a"


def _parts(colour: str) -> list[str]:
    return [colour[1:3], colour[3:5], colour[5:7]]


def _frames(grid: Grid, cells: Sequence[Cell]) -> list[Figure]:
    """Frame the confirmed cells in a colour that contrasts with theirs."""
    low, high = _range(grid, _mean)
    frames: list[Figure] = []
    for cell in cells:
        if cell.mean is not None and cell.confirm is not None:
            x, y = grid.xs.index(cell.x), grid.ys.index(cell.y)
            place = {"x0": x - 0.47, "x1": x + 0.47, "y0": y - 0.46, "y1": y + 0.46}
            frames.append({"type": "rect", **place, "line": {"color": _on(cell.mean, low, high), "width": 2.5}})
    return frames


def _layout(grid: Grid) -> Figure:
    def along(name: str, values: Sequence[str]) -> Figure:
        return {
            "title": {"text": text(short_name(name))},
            "tickvals": list(range(len(values))),
            "ticktext": [text(value) for value in values],
            "range": [-0.5, len(values) - 0.5],
            "showgrid": False,
            "zeroline": False,
            "fixedrange": True,
        }

    return {"xaxis": along(grid.x, grid.xs), "yaxis": along(grid.y, grid.ys), "hovermode": "closest"}
