"""Names beside points in a plane, where they cover no other name."""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from sweep_service.report.figures.figure_style import Figure, scatter, text

_WIDTH: Final = 420
_HEIGHT: Final = 260
_LETTER: Final = 6
_LINE: Final = 13
_ABOVE: Final = 7
_EDGE: Final = 20
"""Pixels of a plot of usual size: its width and height between the outermost points, a letter, a line, the distance of
a name's middle above its point, and the room beyond the outermost points."""


class NamedPoint(NamedTuple):
    """A point that is to be named."""

    x: float
    y: float
    name: str
    config_id: str


class _Box(NamedTuple):
    """The area that a name covers, in pixels of a plot of usual size."""

    left: float
    right: float
    middle: float

    def meets(self, other: "_Box") -> bool:
        """True if the two names would cover each other."""
        return self.left < other.right and other.left < self.right and abs(self.middle - other.middle) < _LINE

    def covers(self, x: float, y: float) -> bool:
        """True if the name would lie over a point."""
        return self.left < x < self.right and abs(self.middle - y) < _LINE / 2


def point_names(named: Sequence[NamedPoint], xs: Sequence[float], ys: Sequence[float]) -> list[Figure]:
    """Write names, the first ones first, where they cover the fewest points.

    A name without a place that is free of other names is left out, and shown under the pointer alone.

    Args:
        xs, ys: coordinates of the points, which span the axes.
    """
    x_of, y_of = _pixels(xs, _WIDTH), _pixels(ys, _HEIGHT)
    points = [(x_of(x), y_of(y)) for x, y in zip(xs, ys, strict=True)]
    taken: list[_Box] = []
    traces: list[Figure] = []
    for point in named:
        places = _places(x_of(point.x), y_of(point.y), len(point.name) * _LETTER)
        free = [(where, box) for where, box in places if not any(box.meets(other) for other in taken)]
        if free:
            where, box = min(free, key=lambda place: sum(place[1].covers(x, y) for x, y in points))
            taken.append(box)
            traces.append(
                scatter(
                    "text",
                    [point.x],
                    [point.y],
                    text=[f"  {text(point.name)}  "],
                    textposition=where,
                    textfont={"size": 11, "color": "@ink"},
                    hoverinfo="skip",
                    meta={"config": point.config_id, "seed": False},
                )
            )
    return traces


def _pixels(values: Sequence[float], size: int) -> Callable[[float], float]:
    """Return a function from a value to its place on an axis of `size` pixels."""
    low, span = min(values), max(values) - min(values)
    return lambda value: size * (value - low) / (span or 1)


def _places(x: float, y: float, width: float) -> list[tuple[str, _Box]]:
    """Return the places of a name beside its point that lie inside the plot, towards the middle first."""
    sides = ("right", "left") if x < _WIDTH / 2 else ("left", "right")
    starts = {"right": x + 8, "left": x - 8 - width}
    return [
        (f"{level} {side}", _Box(starts[side], starts[side] + width, y + shift))
        for side in sides
        for level, shift in (("top", _ABOVE), ("bottom", -_ABOVE), ("middle", 0))
        if starts[side] > -_EDGE and starts[side] + width < _WIDTH + _EDGE
    ]
