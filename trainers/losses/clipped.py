"""Losses that drop the gradient of a token whose ratio left the bounds in the direction of its advantage."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from trainers.losses.base import ClipParams, LossOutput, TokenBatch, dual_clipped, regions


class GRPOParams(ClipParams):
    """PPO-clip with group-relative advantages. Defaults: arXiv:2402.03300, both sides 0.2, no dual clip."""

    name: Literal["grpo"] = "grpo"


class DAPOParams(ClipParams):
    """PPO-clip with a wider upper bound (clip-higher). Defaults: arXiv:2503.14476; dual clip of the verl recipes."""

    name: Literal["dapo"] = "dapo"
    epsilon_high: float = Field(default=0.28, gt=0, description="The ratio's upper bound is 1 + epsilon_high.")
    dual_clip: float | None = Field(
        default=10.0, description="Bound c on the ratio of tokens with A < 0, above 1 + epsilon_high; null for none."
    )


def clipped(batch: TokenBatch, params: ClipParams) -> LossOutput:
    """PPO's clipped loss, -min(r A, clip(r, 1 - epsilon_low, 1 + epsilon_high) A), with an optional dual clip.

    Gradient weight (the factor on A grad log pi): 0 for A < 0 with r < low, for A > 0 with r > high and for A < 0
    with r > dual_clip; r otherwise.

    Args:
        batch: log-probabilities in nats and advantages, (B, T).
        params: bounds on the ratio.
    Returns: per-token loss (B, T) and region masks.
    Source: arXiv:1707.06347 eq. 7; dual clip arXiv:1912.09729.
    """
    ratio_BT, advantages_BT = batch.ratio_BT(params.log_ratio_clamp), batch.advantages_BT
    objective_BT = (ratio_BT * advantages_BT).minimum(ratio_BT.clamp(params.low, params.high) * advantages_BT)
    objective_BT = dual_clipped(objective_BT, advantages_BT, params.dual_clip)
    seen_ratio_BT = ratio_BT.detach()
    return LossOutput(-objective_BT, regions(seen_ratio_BT, advantages_BT, params), seen_ratio_BT)
