"""Finds ranges of which training takes only some values, and says what to write instead.

Training may take both ends and refuse what lies between: 8 and 16 updates are whole rollouts, 9 are not. So the values
of a range are tried before the sweep is stored, and no sampler proposes one of them hours later.
"""

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Final, NamedTuple

from search_spaces.distributions import Float, Int
from search_spaces.space import Point, SearchSpace
from sweep_service.errors import SpecError, pointer
from trainers.config.complaints import Complaint

_MOST_OF_RANGE: Final = 1000
"""Values of one range that are tried, from its low on."""
_MOST_OF_SPACE: Final = 2000
"""Values of all ranges together that are tried; each takes a tenth of a millisecond and kilobytes."""
_LONGEST_LIST: Final = 20
"""Values that a remedy lists."""
_BETWEEN: Final = (math.sqrt(5) - 1) / 2
"""Place in a continuum at which hardly any has a whole number."""


class WrongRange(NamedTuple):
    """A range of which training takes some values, but not all between its ends."""

    error: SpecError
    refused: set[float]
    """Values that were tried in vain."""


def wrong_ranges(
    space: SearchSpace, complaints: Callable[[Point], Sequence[Complaint]], anchor: Point, last: Point
) -> dict[str, WrongRange]:
    """Try the values of each range, and return the wrong ones by name. Those wrong in their ends alone are not told.

    Args:
        complaints: the reasons why training refuses a point.
        anchor: a point with values for the other parameters.
        last: another; the values that are usable there, too, are told, if there are any.
    """
    ranges = {name: values for name, values in space.root.items() if isinstance(values, Float | Int)}
    most = min(_MOST_OF_RANGE, _MOST_OF_SPACE // max(1, len(ranges)))
    result = dict[str, WrongRange]()
    for name, values in ranges.items():
        reasons = {value: complaints({**anchor, name: value}) for value in _first_values(values, most)}
        if values.size is None and any(reasons.values()):  # perhaps whole numbers will do
            low, high = math.ceil(values.low), math.floor(values.high)
            reasons |= {value: complaints({**anchor, name: value}) for value in range(low, min(high + 1, low + most))}
        at_last = {value: complaints({**last, name: value}) for value, found in reasons.items() if not found}
        anchors = (anchor,) if all(at_last.values()) else (anchor, last)
        reasons |= at_last if len(anchors) > 1 else {}
        refused = [value for value, found in reasons.items() if found]
        usable = sorted(reasons.keys() - refused)
        if usable and not {values.low, values.high}.issuperset(refused):
            why = f"{refused[0]:.6g}: {(detail := reasons[refused[0]][0].detail)}"
            for other in [other for other in space.varied if other in detail and other in anchor and other != name]:
                why += f"; tried with {other} {' and '.join(dict.fromkeys(str(point[other]) for point in anchors))}"
            tried = reasons if values.size is not None else [value for value in reasons if value == int(value)]
            remedy = _remedy(values, usable, max(tried, default=values.high))
            detail = f"training takes only some of its values; {remedy} ({why})"
            result[name] = WrongRange(SpecError(pointer(("space", name)), detail), set(refused))
    return result


def _first_values(values: Float | Int, most: int) -> Sequence[float]:
    if values.size is None:
        return [values.low + _BETWEEN * (values.high - values.low)]
    return [*map(values.at, range(min(values.size, most)))]


def _remedy(values: Float | Int, usable: Sequence[float], last_tried: float) -> str:
    """Return the range or the list to write, which has the usable values alone."""
    exact = [Fraction(str(value)) for value in usable]
    gaps = {after - before for before, after in pairwise(exact)}
    if len(gaps) != 1:
        such_as = "" if len(usable) <= _LONGEST_LIST else "a list, such as "
        return f"write {such_as}[{', '.join(map(_written, exact[:_LONGEST_LIST]))}]"
    gap, low, high = gaps.pop(), exact[0], exact[-1]
    if high + gap > last_tried:  # so values that were not tried are usable in the same steps
        high += (Fraction(str(values.high)) - high) // gap * gap
    is_whole = gap.denominator == low.denominator == 1
    step = "" if is_whole and gap == 1 else f", step: {_written(gap)}"
    log = ", log: true" if values.log and not step else ""
    kind = "int" if is_whole else "float"
    text = f"write {{type: {kind}, low: {_written(low)}, high: {_written(high)}{step}{log}}}"
    if not values.log or not step:
        return text
    doubled = [low * 2**power for power in range(_LONGEST_LIST) if low * 2**power <= high]
    listed = ", ".join(_written(value) for value in doubled if (value - low) % gap == 0)
    return f"{text}, or in place of a log scale, which has no step, [{listed}]"


def _written(number: Fraction) -> str:
    return str(number.numerator if number.denominator == 1 else float(number))
