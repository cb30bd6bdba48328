"""A number keeps its value, unless a few roundings are all that keeps it from one that somebody would write."""

import math
import random
from itertools import accumulate

import pytest

from search_spaces.written_numbers import as_written


@pytest.mark.parametrize(
    ("value", "written"), [(0.1 + 0.2, 0.3), (1.1 * 1.1, 1.21), (1 - 0.9, 0.1), (13 * 1e-7, 1.3e-6)]
)
def test_what_arithmetic_leaves_is_rounded_away(value: float, written: float) -> None:
    assert value != written
    assert as_written({"a": [value, {"b": (value,)}]}) == {"a": [written, {"b": [written]}]}


def test_a_sum_of_tenths_is_written_with_one_decimal() -> None:
    assert list(map(as_written, accumulate([0.1] * 10))) == [number / 10 for number in range(1, 11)]


@pytest.mark.parametrize(
    "value",
    [1 / 3, math.pi * 1e-6, 0.5488135039273248, 1 + 1e-9, 0.0, 5e-324, 1e300, 1.7976931345e308, 2**53, True, "x"],
)
def test_other_values_stay_as_they_are(value: object) -> None:
    assert as_written(value) is value or as_written(value) == value


def test_draws_keep_all_their_digits() -> None:
    draw = random.Random(0)
    draws = [draw.uniform(0, 1) for _ in range(1000)]
    assert list(map(as_written, draws)) == draws
