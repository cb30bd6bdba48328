"""The objective over two parameters: mean, interval and number of seeds in each cell."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Final

from sweep_service.report.figures.figure_style import ConfigStyle, Figure, lower_fence, scatter, text, with_gaps
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

    def values(self, grid: Grid) -> list[float]:
        """Return its values in all cells that have one."""
        return [value for cell in grid.cells if (value := self.value(cell)) is not None]

    def ends(self, grid: Grid) -> tuple[float, float]:
        """Return the values at which colours begin and end, the same in every facet."""
        values = self.values(grid)
        low, high = lower_fence(values), max(values)
        return low, high if high > low else low + 1


def heatmap_figures(report: Report, _styles: Mapping[str, ConfigStyle]) -> list[Figure]:
    """Draw the objective over two parameters, and the entropy that is left; a heat map for each value of the third."""
    grid = report.grid
    if grid is None or not any(cell.mean is not None for cell in grid.cells):
        return []
    best = report.best.config_id if report.best else None

    def objective_words(cell: Cell) -> list[str]:
        star = "★ " if best is not None and cell.config_id == best else ""
        lines = [f"<b>{star}{number(cell.mean)}</b>"]
        lines += [f"±{number(cell.half_width)}"] if cell.half_width is not None else []
        lines += [f"n {_seeds(cell)}"]
        return lines + ([f"✓ {number(cell.confirm)}"] if cell.confirm is not None else [])

    quantities = [
        _Quantity("objective", "Objective", _objective_note(report, grid), attrgetter("mean"), objective_words),
        _Quantity(
            "kept",
            "Entropy kept",
            note="Entropy at the end divided by entropy at the start, mean over trials. Hatched: no result.",
            value=attrgetter("entropy_kept"),
            words=lambda cell: [f"<b>{number(cell.entropy_kept, 2)}</b>"],
        ),
    ]
    drawn = [quantity for quantity in quantities if quantity.values(grid)]
    beside = len(grid.xs) <= _MOST_BESIDE
    return [
        _figure(grid, quantity, place, drawn if beside else [quantity]) | {"wide": not beside}
        for place in range(max(1, len(grid.facets)))
        for quantity in drawn
    ]


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
    means = [cell.mean for cell in grid.cells if cell.mean is not None]
    if (bottom := lower_fence(means)) > min(means):
        lines.append(f"Cells below {number(bottom, 2)} have one colour.")
    return " ".join([*lines, "Hatched: no result."])


def _seeds(cell: Cell) -> str:
    return str(cell.n) if cell.n == cell.planned else f"{cell.n}/{cell.planned}"


def _figure(grid: Grid, quantity: _Quantity, place: int, beside: Sequence[_Quantity]) -> Figure:
    """Draw the heat map of one facet; the first one carries the explanation.

    Args:
        beside: quantities whose figures stand side by side, so that all need the same height.
    """
    facet = grid.facets[place] if grid.facets else None
    where = f", {short_name(grid.facet)} = {facet}" if grid.facet and facet is not None else ""
    cells = [cell for cell in grid.cells if cell.facet == facet]
    lines = max(len(one.words(cell)) for one in beside for cell in grid.cells)
    pixels = max(34, 16 * lines + (12 if len(grid.ys) <= _MANY_ROWS else 6))

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

    figure: Figure = {
        "id": f"grid-{quantity.id}-{place}",
        "title": f"{quantity.title} over {short_name(grid.x)} and {short_name(grid.y)}{where}",
        **({"note": quantity.note} if place == 0 else {}),
        "data": _traces(grid, cells, quantity, quantity.words, 12),
        "layout": {
            "xaxis": along(grid.x, grid.xs),
            "yaxis": along(grid.y, grid.ys),
            "hovermode": "closest",
            "shapes": _frames(grid, cells, *quantity.ends(grid)) if quantity.id == "objective" else [],
        },
        "height": _AROUND + len(grid.ys) * pixels,
    }
    if len(grid.xs) <= _MOST_BESIDE:
        return figure | {"narrow": {"data": _traces(grid, cells, quantity, quantity.words, 10)}}
    # a cell of a narrow screen has room for `.84`
    short = _traces(grid, cells, quantity, lambda cell: [number(quantity.value(cell), 2).removeprefix("0")], 9)
    return figure | {"narrow": {"data": short, "height": _AROUND + len(grid.ys) * 34}}


def _traces(grid: Grid, cells: Sequence[Cell], quantity: _Quantity, words: Words, size: int) -> list[Figure]:
    by_place = {(cell.y, cell.x): cell for cell in cells}
    table = [[by_place.get((y, x)) for x in grid.xs] for y in grid.ys]
    low, high = quantity.ends(grid)
    values = [[quantity.value(cell) if cell else None for cell in row] for row in table]
    heat: Figure = {
        "type": "heatmap",
        "z": [[None if value is None else round(value, 4) for value in row] for row in values],
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
    places = [(x, y, cell, values[y][x]) for y, row in enumerate(table) for x, cell in enumerate(row)]
    full = [(x, y, "<br>".join(words(cell))) for x, y, cell, value in places if cell and value is not None]
    colours = [_on(value, low, high) for *_, value in places if value is not None]
    holes = [(x, y, cell) for x, y, cell, value in places if value is None]
    failed = [(x, y, f"<b>n {_seeds(cell)}</b>") for x, y, cell in holes if cell and cell.planned]

    def written(texts: Sequence[tuple[int, int, str]], colour: str | list[str]) -> Figure:
        return {
            "type": "scatter",
            "mode": "text",
            "hoverinfo": "skip",
            "x": [x for x, _, _ in texts],
            "y": [y for _, y, _ in texts],
            "text": [lines for _, _, lines in texts],
            "textfont": {"size": size, "color": colour},
        }

    hatch = [_hatch([(x, y) for x, y, _ in holes])] if holes else []
    return [heat, *hatch, written(full, colours), *([written(failed, "@ink")] if failed else [])]


def _hover(grid: Grid, cell: Cell) -> str:
    place = [f"{short_name(grid.x)} = {cell.x}", f"{short_name(grid.y)} = {cell.y}"]
    place += [f"{short_name(grid.facet)} = {cell.facet}"] if grid.facet and cell.facet is not None else []
    lines = [", ".join(place), f"tune mean {number(cell.mean)}, {_seeds(cell)} seeds"]
    lines += [f"confirm mean {number(cell.confirm)}"] if cell.confirm is not None else []
    lines += [f"entropy kept {number(cell.entropy_kept, 2)}"] if cell.entropy_kept is not None else []
    return "<br>".join(text(line) for line in lines)


def _hatch(places: Sequence[tuple[int, int]]) -> Figure:
    """Draw slanted lines over empty cells: y = x + offset, cut at the cell's edges."""
    lines: list[tuple[list[float], list[float]]] = []
    for x, y in places:
        for offset in (-0.72, -0.48, -0.24, 0.0, 0.24, 0.48, 0.72):
            ends = max(-0.47, -0.47 - offset), min(0.47, 0.47 - offset)
            lines.append(([round(x + end, 3) for end in ends], [round(y + end + offset, 3) for end in ends]))
    return scatter("lines", *with_gaps(lines), line={"color": "@line", "width": 1.2}, hoverinfo="skip")


def _on(value: float, low: float, high: float) -> str:
    """Return white or black, whichever can be read on the cell's colour."""
    place = min(max((value - low) / (high - low), 0), 1) * (len(_SCALE) - 1)
    at = min(int(place), len(_SCALE) - 2)
    linear: list[float] = []
    for start in (1, 3, 5):  # of red, green and blue in `#440154`
        below, above = (int(colour[start : start + 2], 16) for colour in _SCALE[at : at + 2])
        part = (below * (at + 1 - place) + above * (place - at)) / 255
        linear.append(part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4)
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return "#ffffff" if luminance < 0.18 else "#10131a"


def _frames(grid: Grid, cells: Sequence[Cell], low: float, high: float) -> list[Figure]:
    """Frame the confirmed cells in a colour that contrasts with theirs."""
    frames: list[Figure] = []
    for cell in cells:
        if cell.mean is not None and cell.confirm is not None:
            x, y = grid.xs.index(cell.x), grid.ys.index(cell.y)
            place = {"x0": x - 0.47, "x1": x + 0.47, "y0": y - 0.46, "y1": y + 0.46}
            frames.append({"type": "rect", **place, "line": {"color": _on(cell.mean, low, high), "width": 2.5}})
    return frames
