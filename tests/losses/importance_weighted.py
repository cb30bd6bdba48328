"""Test records of cispo, which weighs tokens by a ratio that it does not differentiate."""

from math import exp
from typing import Any

from tests.losses.loss_case import PPO_OWN, LossCase, Twin


def cispo(ratio: float, advantage: float, params: Any) -> float:
    """The clamp cuts the ratio only."""
    if params.log_ratio_clamp is not None:
        ratio = min(max(ratio, exp(-params.log_ratio_clamp)), exp(params.log_ratio_clamp))
    return min(max(ratio, 1 - params.epsilon_low), 1 + params.epsilon_high)


CASES = {
    "cispo": LossCase(
        weight=cispo,
        clamp_drops=False,
        variants=({}, {"epsilon_low": 10, "epsilon_high": 4}),
        baseline=({"epsilon_low": 2.0, "epsilon_high": 4.0}, PPO_OWN),  # no lower cap on the weight, a wide upper one
        searched={"epsilon_high": [0.2, 5.0], "epsilon_low": [0.2, 1.0]},
        official={"cispo": 5},
        formula=Twin({}, {}),
        scenario=Twin({}, {}),
        mistakes={
            "cispo without a lower bound": ("clamp(params.low, params.high)", "clamp(max=params.high)"),
            "cispo's weight differentiated": (
                "batch.ratio_BT(params.log_ratio_clamp), batch",
                "batch.log_ratio_BT(params.log_ratio_clamp).exp(), batch",
            ),
        },
    ),
}
