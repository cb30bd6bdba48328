"""Importance of parameters: edges that the report's tests do not meet."""

import pytest

from search_spaces.importance import importances
from search_spaces.sampling import Observation
from search_spaces.space import SearchSpace

SPACE = SearchSpace.model_validate(
    {"a": {"type": "int", "low": 1, "high": 64, "log": True}, "b": [True, False], "c": 3}
)


def observed(n: int, value: float | None = None) -> list[Observation]:
    points = [{"a": 1 + 7 * i % 64, "b": i % 2 == 0, "c": 3} for i in range(n)]
    return [
        Observation(i, point, float(point["b"]) if value is None else value, "complete")
        for i, point in enumerate(points)
    ]


def test_fixed_names_are_left_out_and_words_and_log_integers_weighed() -> None:
    found = importances(SPACE, observed(30))
    assert found is not None
    assert list(found.fanova) == list(found.ped_anova) == ["a", "b"]
    assert found.fanova["b"] == pytest.approx(1, abs=0.02)
    assert found.num_best == 15  # all that equal the best


def test_unfinished_points_do_not_count() -> None:
    more = [Observation(30 + i, {"a": 1 + i, "b": True, "c": 3}, None, "failed") for i in range(10)]
    assert importances(SPACE, observed(30) + more) == importances(SPACE, observed(30))


@pytest.mark.parametrize("few", [observed(5), observed(30, value=0.5)])
def test_nothing_is_said_of_few_or_equal_points(few: list[Observation]) -> None:
    assert importances(SPACE, few) is None
