"""One number for all that arithmetic makes of it, so that 0.3 and 0.1 + 0.2 are one value and give one config."""

import math
from collections.abc import Mapping
from typing import Any, Final, cast

_DIGITS: Final = 10
"""Digits that people write; a drawn number has more, and is hardly ever so near to one with as few."""
_ROUNDING: Final = 4
"""Distance from the written number that a few roundings leave, in units of the last place."""


def as_written(value: Any) -> Any:
    """Return a value of JSON with each number as somebody would write it: 0.3 for 0.30000000000000004.

    Numbers that are near to none with few digits stay as they are.
    """
    if isinstance(value, float) and math.isfinite(value):
        written = float(f"{value:.{_DIGITS}g}")
        return written if abs(value - written) <= _ROUNDING * math.ulp(value) else value
    if isinstance(value, Mapping):
        return {name: as_written(part) for name, part in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [as_written(part) for part in cast("list[Any]", value)]
    return value
