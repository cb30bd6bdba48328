"""Test records of the losses that scale the gradient of tokens outside the bounds: gppo, ce_gppo."""

from math import inf
from typing import Any

from hypothesis import strategies as st

from tests.losses.clipped import dual_clipped
from tests.losses.loss_case import BOUNDS, DUAL, ERC, LossCase, Twin


def gradient_preserving(ratio: float, advantage: float, params: Any) -> float:
    if advantage < 0 and ratio < 1 - params.epsilon_low:
        return getattr(params, "beta1", 1.0) * (1 - params.epsilon_low)
    if advantage > 0 and ratio > 1 + params.epsilon_high:
        return getattr(params, "beta2", 1.0) * (1 + params.epsilon_high)
    return dual_clipped(ratio, advantage, params)


CASES = {
    "gppo": LossCase(
        weight=gradient_preserving,
        variants=({}, {"epsilon_low": 0.3, "epsilon_high": 0.1, "dual_clip": 1.5, "log_ratio_clamp": 1.0}),
        baseline=(BOUNDS | {"erc": ERC}, {"name": "grpo", **BOUNDS}),
        searched={"epsilon": [0.2, 0.3], "log_ratio_clamp": [None, 20]},
        official={"gppo": 5, "erc_gppo": 3},
        formula=Twin({"dual_clip": DUAL}, {"dual_clip": DUAL, "largest_delta": inf}),
        scenario=Twin({"dual_clip": 1.2}, {"dual_clip": 1.2}),
        mistakes={
            "beta2 without its bound": ("beta2 * params.high", "beta2"),
            "ratio differentiated through the bound": (
                "-weight_BT * batch.unit_BT(params.log_ratio_clamp)",
                "-weight_BT * batch.unit_BT(params.log_ratio_clamp) ** 2",
            ),
        },
    ),
    "ce_gppo": LossCase(
        weight=gradient_preserving,
        variants=(
            {},
            {"beta1": 0.3, "beta2": 1.7, "epsilon_low": 0.1, "epsilon_high": 0.3, "dual_clip": None}
            | {"log_ratio_clamp": 20},
        ),
        choices={"beta1": st.floats(0, 2), "beta2": st.floats(0, 2)},
        baseline=(
            BOUNDS | {"beta1": 0.3, "schedule": [{"step": 8, "beta1": 1.0}], "erc": ERC},
            {"name": "ce_gppo", **BOUNDS, "beta1": 0.0, "beta2": 0.0, "schedule": [], "erc": None},
        ),
        searched={"beta1": [0, 0.5, 1], "beta2": [0.5, 1], "epsilon": [0.15, 0.2, 0.3]},
        official={"ce_gppo": 14, "erc_ce_gppo": 2},
        formula=Twin(
            {"dual_clip": DUAL, "beta1": 0.5, "beta2": 0.75, "log_ratio_clamp": 20.0},
            {"dual_clip": DUAL, "beta1": 0.5, "beta2": 0.75},
        ),
        scenario=Twin({"dual_clip": 1.2, "beta1": 0.5, "beta2": 0.75}, {"dual_clip": 1.2, "beta1": 0.5, "beta2": 0.75}),
        mistakes={
            "betas swapped": ("params, params.beta1, params.beta2)", "params, params.beta2, params.beta1)"),
            "beta1 times the ratio, not the bound": (
                'ratio_BT.masked_fill(masks["na_lp"], beta1 * params.low)',
                'ratio_BT.where(~masks["na_lp"], beta1 * ratio_BT)',
            ),
        },
    ),
}
