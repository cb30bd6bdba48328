"""Names of configs, parameters and values as people read them."""

import pytest

from sweep_service.sweep.labels import params_text, value_text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (1.0, "1"), (0.5, "0.5"), (0.28, "0.28"), (2e-4, "2e-4"), (1.5e-5, "1.5e-5"), (480, "480"),
     (100.0, "100"), (-0.25, "-0.25"), (1 / 3, "0.3333"), (1e-3, "0.001"), (True, "True"), ("dapo", "dapo")],
)  # fmt: skip
def test_values_are_short(value: object, text: str) -> None:
    assert value_text(value) == text


def test_parameters_are_named_by_their_last_part() -> None:
    assert params_text({"loss.beta1": 0.5, "loss.beta2": 1.0, "loss.name": "dapo", "loss.epsilon": None}) == (
        "beta1=0.5 beta2=1 loss=dapo"
    )
    assert params_text({"optimizer.learning_rate": 1e-6, "steps": 480}) == "learning_rate=1e-06 steps=480"
