"""The weight on tokens with A > 0: how it moves, and what its parameters refuse."""

from typing import Any

import pytest
from pydantic import ValidationError

from trainers.config import TrainingConfig
from trainers.losses import PositiveWeightParams, next_weight


@pytest.mark.parametrize(
    ("before", "entropy", "expected"),
    [(0.5, 0.4, 0.45), (0.5, 0.5, 0.55), (0.5, 0.6, 0.55), (0.02, 0.1, 0.0), (0.98, 2.0, 1.0), (0.5, None, 0.5)],
)
def test_a_target_lowers_the_weight_while_entropy_lies_below_it(
    before: float, entropy: float | None, expected: float
) -> None:
    params = PositiveWeightParams(weight=0.9, target=0.5)
    assert next_weight(before, 3, entropy, params) == pytest.approx(expected)
    assert next_weight(None, 0, None, params) == 0.9


def test_without_the_option_the_weight_is_one_and_without_a_target_it_stays() -> None:
    assert [next_weight(None, 0, None, None), next_weight(1.0, 7, 0.1, None)] == [1, 1]
    params = PositiveWeightParams(weight=0.3)
    assert [next_weight(None, 0, None, params), next_weight(0.3, 5, 9.0, params)] == [0.3, 0.3]


def test_a_rise_is_stage_based_or_epoch_wise() -> None:
    stages = PositiveWeightParams(weight=0, rise_from=10, rise_until=20)
    assert [next_weight(None, step, None, stages) for step in (0, 10, 15, 20, 99)] == [0, 0, 0.5, 1, 1]
    epochs = PositiveWeightParams(weight=0.5, rise_until=4)
    assert [next_weight(0.1, step, 3.0, epochs) for step in range(5)] == [0.5, 0.625, 0.75, 0.875, 1]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"target": 0.3, "rise_until": 9}, "target 0.3 and rise_until 9 both change the weight; set one of them to"),
        ({"rise_from": 3}, "rise_from 3 does nothing without rise_until; give both"),
        ({"rise_from": 3, "rise_until": 3}, "rise_until 3 must come after rise_from 3; raise it"),
    ],
)
def test_impossible_weights_are_refused_with_the_reason(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        PositiveWeightParams.model_validate(values)


def test_a_rise_that_begins_after_the_last_update_is_refused() -> None:
    late = {"advantage": {"positive_weight": {"weight": 0, "rise_from": 480, "rise_until": 500}}}
    with pytest.raises(ValidationError, match=r"rise_from 480: the weight would rise after all 480 steps; lower it"):
        TrainingConfig.model_validate(late)
