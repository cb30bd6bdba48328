"""Test records of the losses that find their bounds from the tokens: dcpo, bapo."""

from math import inf, sqrt
from typing import Any

from hypothesis import strategies as st

from tests.losses.clipped import dual_clipped
from tests.losses.loss_case import BOUNDS, DUAL, PPO_OWN, LossCase, Twin


def dcpo(ratio: float, advantage: float, params: Any) -> float:
    """Return the weight of a token whose old probability is 1."""
    low = 0.5 + 0.5 * sqrt(max(1 - 4 * params.epsilon_low, 0.0))
    high = min(0.5 + 0.5 * sqrt(1 + 4 * params.epsilon_high), params.largest_bound)
    dropped = advantage < 0 and params.dual_clip is not None and ratio > params.dual_clip
    return 0.0 if dropped or (advantage > 0 and ratio > high) or (advantage < 0 and ratio < low) else ratio


def bapo(ratio: float, advantage: float, params: Any) -> float:
    """Return the weight of a token where the bounds are enough at which the search begins."""
    assert params.target == 0
    return dual_clipped(ratio, advantage, params)


CASES = {
    "dcpo": LossCase(
        weight=dcpo,
        weight_by_ratio=False,
        variants=(
            {},
            {"epsilon_low": 0.3, "epsilon_high": 3, "largest_bound": 1.9, "dual_clip": 2.99, "log_ratio_clamp": 1},
        ),
        choices={"largest_bound": st.floats(1.5, 20)},
        epsilons=lambda low, high: (low * (1 - low), high * (high - 1)),
        baseline=({"epsilon_low": 0.1, "dual_clip": 7.0}, PPO_OWN),  # bounds on a change of probability
        searched={"epsilon_low": [0.16, 0.2], "epsilon_high": [0.2, 0.28], "dual_clip": [None, 10]},
        official={"dcpo": 5},
        formula=Twin(
            {"dual_clip": DUAL, "largest_bound": 4.0, "epsilon_low": 0.02, "epsilon_high": 0.1},
            {"dual_clip": DUAL, "largest_bound": 4.0, "probability_bounds": (0.02, 0.1), "largest_delta": inf},
        ),
        scenario=Twin(
            {"epsilon_low": 0.02, "epsilon_high": 0.03, "dual_clip": 1.5, "largest_bound": 1.4},
            {"dual_clip": 1.5, "largest_bound": 1.4, "probability_bounds": (0.02, 0.03), "per_sequence": True},
        ),
        mistakes={
            "dcpo by the present probability": ("batch.old_logprobs_BT.exp()", "batch.logprobs_BT.detach().exp()"),
            "dcpo without a largest bound": (".clamp(max=params.largest_bound)", ""),
            "dcpo's bounds in each other's place": ("(1 - 4 * params.epsilon_low", "(1 - 4 * params.epsilon_high"),
        },
    ),
    "bapo": LossCase(
        weight=bapo,
        looks_at_the_batch=True,
        variants=(
            {"target": 0},
            {"target": 0, "epsilon_low": 0.1, "epsilon_high": 0.3, "dual_clip": None, "log_ratio_clamp": None},
        ),
        choices={"low_end": st.just(0.99), "high_end": st.just(3.0), "target": st.just(0.0)},
        bare={"target": 0.0},
        baseline=(BOUNDS | {"target": 1.0}, {"name": "grpo", **BOUNDS}),  # where its bounds begin
        searched={"target": [0.5, 1.0], "high_end": [1.5, 2.0], "low_end": [0.8, 0.95]},
        official={"bapo": 7},
        official_names={
            "ratio_lower_max": "low_end",
            "ratio_lower_step": "low_step",
            "ratio_upper_max": "high_end",
            "ratio_upper_step": "high_step",
            "adv_ratio_target": "target",
        },
        formula=Twin(
            {"low_end": 0.8, "low_step": 0.1, "high_end": 4.0, "high_step": 0.3, "dual_clip": 5.0}
            | {"target": 1.05e-7},  # one token has nearly all of the negative part
            {"dual_clip": 5.0, "ends": (0.8, 4.0), "steps": (0.1, 0.3), "target": 1.05e-7},
        ),
        scenario=Twin(
            {"low_end": 0.97, "low_step": 0.01, "high_end": 1.2, "high_step": 0.02, "target": 0.9},
            {"dual_clip": 3.0, "ends": (0.97, 1.2), "steps": (0.01, 0.02), "target": 0.9},
        ),
        mistakes={
            "bapo raises the upper bound first": (
                "while low < self.low_end:",
                "while low < self.low_end and high >= 4:",
            ),
            "bapo ends at the last bounds whatever they do": (
                "for pair in reversed(others):",
                "for pair in others[:0]:",
            ),
            "bapo counts positive tokens without their bound": (
                "ratio_BT.clamp(max=pair.high) * adv",
                "ratio_BT * adv",
            ),
        },
    ),
}
