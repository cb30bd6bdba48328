"""Shapes of CE-GPPO's schedule."""

from typing import Any

import pytest
from pydantic import ValidationError

from trainers.losses import BetaSwitch, CEGPPOParams


def params(schedule: Any) -> CEGPPOParams:
    return CEGPPOParams.model_validate({"beta1": 0.8, "beta2": 1.0, "schedule": schedule})


@pytest.mark.parametrize(
    ("schedule", "betas"),
    [
        ({"shape": "linear", "start": 10, "over": 20, "beta1": 0.4}, {10: 0.8, 20: 0.6, 30: 0.4, 99: 0.4}),
        # 0.8 - 0.4 (1 - cos(pi x)) / 2 at x = 0, 1/4, 1/2, 3/4, 1
        (
            {"shape": "cosine", "start": 10, "over": 20, "beta1": 0.4},
            {9: 0.8, 10: 0.8, 15: 0.7414213562373095, 20: 0.6, 25: 0.4585786437626905, 30: 0.4, 99: 0.4},
        ),
        ({"shape": "steps", "at": [5, 9], "beta1": [0.5, 0.2]}, {4: 0.8, 5: 0.5, 8: 0.5, 9: 0.2}),
        ([{"step": 10, "ramp": 20, "beta1": 0.4, "curve": "cosine"}], {15: 0.7414213562373095}),
        ([{"step": 10, "beta1": 0.4, "curve": "cosine"}], {9: 0.8, 10: 0.4}),
    ],
)
def test_betas_after_so_many_updates(schedule: Any, betas: dict[int, float]) -> None:
    shaped = params(schedule)
    assert {step: shaped.at(step).beta1 for step in betas} == pytest.approx(betas, rel=1e-12)
    assert {shaped.at(step).beta2 for step in betas} == {1.0}


def test_a_shape_is_kept_as_the_switches_that_it_stands_for() -> None:
    cosine = params({"shape": "cosine", "over": 20, "beta1": 0.4, "beta2": 0.5})
    assert cosine.schedule == (BetaSwitch(step=1, ramp=20, beta1=0.4, beta2=0.5, curve="cosine"),)
    assert CEGPPOParams.model_validate(cosine.model_dump()) == cosine
    linear = params({"shape": "linear", "over": 20, "beta1": 0.4})
    assert linear.model_dump()["schedule"] == ({"step": 1, "beta1": 0.4, "beta2": None, "ramp": 20},)


@pytest.mark.parametrize(
    ("schedule", "reason"),
    [
        ({"shape": "linear", "over": 20}, "the switch at step 1 changes nothing"),
        ({"shape": "steps", "at": [5, 9], "beta1": [0.5]}, "beta1 has 1 values for 2 steps in at; give one for each"),
        ({"shape": "steps", "at": [9, 5], "beta1": [0.5, 1]}, "list the switches in order"),
    ],
)
def test_impossible_shapes_are_refused(schedule: Any, reason: str) -> None:
    with pytest.raises(ValidationError, match=reason):
        params(schedule)
