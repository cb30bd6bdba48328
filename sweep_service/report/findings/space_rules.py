"""Warnings about the searched space: a best config at its edge."""

import math
from typing import Final

from search_spaces.distributions import Categorical, Distribution, Float, Int, is_number
from sweep_service.report.findings.rule import Evidence, Rule
from sweep_service.report.sweep_facts import Facts
from sweep_service.sweep.labels import short_name, value_text

_EDGE: Final = 0.05
"""Share of a continuous range that counts as its boundary."""
_FEWEST_VALUES: Final = 3


def _edge_of_space(facts: Facts) -> Evidence | None:
    """Find parameters whose value in the best config lies at the boundary of what was tried."""
    if facts.best is None:
        return None
    params, texts = facts.configs[facts.best.id].params, list[str]()
    for name, distribution in facts.inputs.sweep.spec.space.root.items():
        value, bounds = params.get(name), _bounds(distribution)
        if bounds is None or not is_number(value) or value == 0:  # no setting takes less than 0
            continue
        low, high = bounds
        on_log_scale = isinstance(distribution, Float | Int) and distribution.log
        at, bottom, top = (math.log(one) if on_log_scale else one for one in (value, low, high))
        place = (at - bottom) / (top - bottom)
        if min(place, 1 - place) > (_EDGE if isinstance(distribution, Float | Int) else 0):
            continue
        side, way = ("lower", "down") if place < 0.5 else ("upper", "up")
        tried = f"{value_text(low)} to {value_text(high)}"
        texts.append(f"{short_name(name)}={value_text(value)} is at the {side} end of {tried}: extend it {way}wards")
    return Evidence("; ".join(texts) + ".") if texts else None


def _bounds(distribution: Distribution) -> tuple[float, float] | None:
    """Return the smallest and largest value; None for a parameter that is not numeric or has fewer than 3 values."""
    if isinstance(distribution, Float | Int):
        few = distribution.size is not None and distribution.size < _FEWEST_VALUES
        return None if few else (distribution.low, distribution.high)
    if not isinstance(distribution, Categorical):
        return None
    numbers = [float(choice) for choice in distribution.choices if is_number(choice)]
    enough = _FEWEST_VALUES <= len(numbers) == len(distribution.choices)
    return (min(numbers), max(numbers)) if enough else None


SPACE_RULES: Final = (
    Rule(
        "EDGE_OF_SPACE",
        "The best config has a numeric parameter at the boundary of the values tried, of which there are 3 or more; "
        "0, below which no setting goes, is none.",
        _edge_of_space,
    ),
)
