"""Test records of the losses that drop tokens as PPO does: grpo, dapo, gspo."""

from math import inf, log
from typing import Any

from hypothesis import strategies as st

from tests.losses.loss_case import BOUNDS, DUAL, ERC, PPO_OWN, LossCase, Twin


def clipped(ratio: float, advantage: float, params: Any) -> float:
    if (advantage > 0 and ratio > 1 + params.epsilon_high) or (advantage < 0 and ratio < 1 - params.epsilon_low):
        return 0.0
    return ratio


def dual_clipped(ratio: float, advantage: float, params: Any) -> float:
    dropped = advantage < 0 and params.dual_clip is not None and ratio > params.dual_clip
    return 0.0 if dropped else clipped(ratio, advantage, params)


def gspo(ratio: float, advantage: float, params: Any) -> float:
    return 0.0 if log(ratio) > params.log_ratio_cap else clipped(ratio, advantage, params)


CASES = {
    "grpo": LossCase(
        weight=dual_clipped,
        variants=({}, {"epsilon_low": 0.1, "epsilon_high": 0.3, "dual_clip": 2.99, "log_ratio_clamp": None}),
        baseline=(BOUNDS, {"name": "grpo", **BOUNDS}),
        searched={"epsilon": [0.1, 0.2], "dual_clip": [None, 10]},
        official={"ppo_clip": 4},
        formula=Twin({}, {}),
        scenario=Twin({}, {"per_sequence": True}, {"aggregation__mode": "seq_mean_token_mean"}),
        mistakes={
            "clipped on the side that PPO keeps": (
                'masks["na_lp"] | masks["pa_lp"]',
                'masks["na_lp"] | masks["pa_lp"] | masks["pa_low"]',
            ),
            "no gradient inside the bounds": ("-ratio_BT * unit_BT * advantages_BT", "-ratio_BT * advantages_BT"),
        },
    ),
    "dapo": LossCase(
        weight=dual_clipped,
        variants=({}, {"dual_clip": None, "log_ratio_clamp": 1.0}),
        baseline=(BOUNDS | {"erc": ERC}, {"name": "dapo", **BOUNDS, "erc": None}),
        searched={"epsilon_high": [0.2, 0.28], "erc.low": [0.9, 0.95]},
        official={"dapo": 8, "erc_dapo": 4},
        formula=Twin({"dual_clip": DUAL}, {"dual_clip": DUAL}),
        scenario=Twin(
            {"dual_clip": 1.2},
            {"dual_clip": 1.2, "only_active": True},
            {
                "aggregation__denominator": "active",
                "rollout__dynamic_sampling": {"prompts_per_round": 6, "max_rounds": 2},
            },
        ),
        mistakes={
            "dual clip missing": ("if bound is None:", "if True:"),
            "dual clip also where A > 0": (
                "(advantages_BT < 0) & (output.ratio_BT > bound)",
                "(output.ratio_BT > bound)",
            ),
        },
    ),
    "gspo": LossCase(
        weight=gspo,
        variants=({}, {"epsilon_low": 0.2, "epsilon_high": 0.3, "log_ratio_cap": 0.7}),
        choices={"log_ratio_cap": st.floats(0.5, 10)},
        baseline=({"epsilon_low": 1e-3}, PPO_OWN),
        searched={"epsilon_low": [3e-4, 4e-4], "epsilon_high": [4e-4, 5e-4]},
        official={"gspo": 5},
        official_names={"seq_log_ratio_cap": "log_ratio_cap"},
        formula=Twin({}, {"largest_delta": inf}),
        scenario=Twin(
            {"epsilon_low": 0.003, "epsilon_high": 0.004}, {"low": 0.997, "high": 1.004, "per_sequence": True}
        ),
        mistakes={
            "gspo with each token's ratio": (
                "mean_BT = mean_B.unsqueeze(-1) * batch.mask_BT",
                "mean_BT = log_ratio_BT",
            ),
            "gspo with the sum of log-ratios": (
                "log_ratio_BT.sum(-1) / batch.mask_BT.sum(-1).clamp(min=1)",
                "log_ratio_BT.sum(-1)",
            ),
        },
    ),
}
