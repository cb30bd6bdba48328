"""Test records of the losses that single out tokens by their covariance: clip_cov, kl_cov."""

from math import inf
from typing import Any

from hypothesis import strategies as st

from tests.losses.clipped import clipped
from tests.losses.loss_case import PPO_OWN, LossCase, Twin


def kl_cov(ratio: float, advantage: float, params: Any) -> float:
    """Return the weight of a token where all are selected."""
    assert params.selected_share == 1
    sign = (ratio > 1) - (ratio < 1)
    return ratio - params.kl_coefficient * sign / advantage


CASES = {
    "clip_cov": LossCase(
        weight=clipped,
        looks_at_the_batch=True,
        variants=({}, {"epsilon_low": 0.2, "epsilon_high": 0.3}),
        choices={"selected_share": st.just(1.0)},
        baseline=({}, PPO_OWN),
        searched={"selected_share": [2e-4, 2e-3], "covariance_low": [0.5, 1.0]},
        official={"clip_cov": 4},
        official_names={
            "clip_cov_ratio": "selected_share",
            "clip_cov_lb": "covariance_low",
            "clip_cov_ub": "covariance_high",
        },
        formula=Twin(
            {"selected_share": 0.5, "covariance_low": -0.5, "covariance_high": 0.5},
            {"share": 0.5, "covariance": (-0.5, 0.5)},
        ),
        scenario=Twin(
            {"selected_share": 0.1, "covariance_low": 0.05, "covariance_high": 2.0},
            {"share": 0.1, "covariance": (0.05, 2.0)},
        ),
        mistakes={
            "clip_cov draws among clipped tokens too": (" & ~clipped_BT[batch.mask_BT]", ""),
            "clip_cov outside its band": ("covariance_N < params.covariance_high", "covariance_N < float('inf')"),
        },
    ),
    "kl_cov": LossCase(
        weight=kl_cov,
        looks_at_the_batch=True,
        variants=({"selected_share": 1}, {"selected_share": 1, "kl_coefficient": 0.1, "log_ratio_clamp": None}),
        choices={"selected_share": st.just(1.0), "kl_coefficient": st.floats(0, 2)},
        bare={"kl_coefficient": 0.0},
        baseline=({}, PPO_OWN),
        searched={"selected_share": [2e-3, 2e-2], "kl_coefficient": [0.5, 1.0]},
        official={"kl_cov": 4},
        official_names={"kl_cov_ratio": "selected_share", "kl_coef": "kl_coefficient"},
        formula=Twin({"selected_share": 0.1, "kl_coefficient": 0.5}, {"share": 0.1, "coefficient": 0.5}),
        scenario=Twin(
            {"selected_share": 0.1, "kl_coefficient": 0.5},
            {"share": 0.1, "coefficient": 0.5, "low": 0.0, "high": inf},
        ),
        mistakes={
            "kl_cov with k3": (
                "batch.log_ratio_BT(params.log_ratio_clamp).abs()",
                "((d := batch.log_ratio_BT(params.log_ratio_clamp)) + (-d).exp() - 1)",
            ),
            "kl_cov penalises the lowest covariance": ("covariance_N.topk(number)", "(-covariance_N).topk(number)"),
            "covariance of uncentred advantages": ("(advantages_N - advantages_N.mean())", "advantages_N"),
        },
    ),
}
