"""Names the nearest working values of a setting, for the refusal of its present value."""

import math
from collections.abc import Iterable


def nearest(name: str, value: int, working: Iterable[int]) -> str | None:
    """Say to set the setting to the nearest of the working values on either side; None, if there are none."""
    values = sorted(working)
    neighbours = [*[n for n in values if n < value][-1:], *[n for n in values if n > value][:1]]
    return f"set {name} to {' or '.join(map(str, neighbours))}" if neighbours else None


def divisors(number: int) -> list[int]:
    """Return all divisors of a number, ascending."""
    small = [divisor for divisor in range(1, math.isqrt(number) + 1) if number % divisor == 0]
    return sorted({*small, *(number // divisor for divisor in small)})


def multiples(of: int, value: int, least: int) -> list[int]:
    """Return the multiples of a number around a value, none below `least`."""
    first = max(value // of, math.ceil(least / of))
    return [first * of, (first + 1) * of]
