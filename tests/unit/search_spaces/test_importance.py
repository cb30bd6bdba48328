"""Importance of parameters: edges that the report's tests do not meet."""

import optuna
import pytest
from optuna.distributions import FloatDistribution

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


def test_as_many_points_are_the_best_ones_as_the_result_says() -> None:
    space = SearchSpace.model_validate({name: {"type": "float", "low": 0, "high": 1} for name in ("x", "y")})
    points = [{"x": (7 * i % 20) / 20, "y": (13 * i % 20) / 20} for i in range(20)]
    values = [one["x"] + one["y"] ** 3 for one in points]
    found = importances(space, [Observation(i, points[i], value, "complete") for i, value in enumerate(values)])
    assert found is not None
    assert found.num_best == 5
    study = optuna.create_study(direction="maximize")
    axes = {name: FloatDistribution(0, 1) for name in ("x", "y")}
    for one, value in zip(points, values, strict=True):
        study.add_trial(optuna.create_trial(value=value, params=one, distributions=axes))
    best, default = (
        optuna.importance.PedAnovaImportanceEvaluator(target_quantile=share).evaluate(study) for share in (0.25, 0.1)
    )
    assert found.ped_anova == pytest.approx({name: value / sum(best.values()) for name, value in best.items()})
    assert default["x"] / sum(default.values()) != pytest.approx(found.ped_anova["x"])


def test_unfinished_points_do_not_count() -> None:
    more = [Observation(30 + i, {"a": 1 + i, "b": True, "c": 3}, None, "failed") for i in range(10)]
    assert importances(SPACE, observed(30) + more) == importances(SPACE, observed(30))


@pytest.mark.parametrize("few", [observed(5), observed(30, value=0.5)])
def test_nothing_is_said_of_few_or_equal_points(few: list[Observation]) -> None:
    assert importances(SPACE, few) is None
