"""Losses that scale, rather than drop, the gradient of tokens outside the clip bounds."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from trainers.losses.base import ClipParams, LossOutput, TokenBatch, dual_clipped, regions


class CEGPPOParams(ClipParams):
    """CE-GPPO. Defaults: arXiv:2509.20712 for 1.5B models; dual clip of the authors' recipes.

    beta1 = beta2 = 0 has PPO-clip's gradient, beta1 = beta2 = 1 is GPPO (arXiv:2508.07629).
    """

    name: Literal["ce_gppo"] = "ce_gppo"
    beta1: float = Field(
        default=0.5, ge=0, description="Scale of the gradient where A < 0 and ratio < 1 - epsilon_low."
    )
    beta2: float = Field(
        default=1.0, ge=0, description="Scale of the gradient where A > 0 and ratio > 1 + epsilon_high."
    )
    dual_clip: float | None = Field(
        default=10.0, description="Bound c on the ratio of tokens with A < 0, above 1 + epsilon_high; null for none."
    )


def ce_gppo(batch: TokenBatch, params: CEGPPOParams) -> LossOutput:
    """Policy-gradient loss that scales the gradient outside the clip bounds to a constant.

    Gradient weight (the factor on A grad log pi): beta1 (1 - epsilon_low) for A < 0 with r < 1 - epsilon_low (NA&LP),
    beta2 (1 + epsilon_high) for A > 0 with r > 1 + epsilon_high (PA&LP), 0 for A < 0 with r > dual_clip, r otherwise.

    Args:
        batch: log-probabilities in nats and advantages, (B, T).
        params: bounds on the ratio; betas on the two regions that PPO drops.
    Returns: per-token loss (B, T) and region masks.
    Source: arXiv:2509.20712 eq. 8; dual clip and separate epsilons from the authors' code.
    """
    ratio_BT, advantages_BT = batch.ratio_BT(params.log_ratio_clamp), batch.advantages_BT
    unit_BT = (batch.logprobs_BT - batch.logprobs_BT.detach()).exp()  # value 1, gradient of log pi: r / sg(r)
    masks = regions(ratio_BT.detach(), advantages_BT, params)
    objective_BT = dual_clipped(ratio_BT * advantages_BT, advantages_BT, params.dual_clip)
    objective_BT = (params.beta1 * params.low * unit_BT * advantages_BT).where(masks["na_lp"], objective_BT)
    objective_BT = (params.beta2 * params.high * unit_BT * advantages_BT).where(masks["pa_lp"], objective_BT)
    return LossOutput(-objective_BT, masks, ratio_BT.detach())
