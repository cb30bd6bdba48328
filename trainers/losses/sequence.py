"""Losses that look at the ratio of a whole sequence."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from trainers.losses.base import AggregationName, ClipParams, LossOutput
from trainers.losses.clipped import clipped

if TYPE_CHECKING:
    from trainers.losses.batch import TokenBatch


class GSPOParams(ClipParams):
    """GSPO. Defaults: arXiv:2507.18071 section 5.1; the cap is verl's."""

    own_aggregation: ClassVar[AggregationName] = "seq_mean_token_mean"
    fixed_aggregation: ClassVar[AggregationName | None] = "seq_mean_token_mean"

    name: Literal["gspo"] = "gspo"
    epsilon_low: float = Field(default=3e-4, gt=0, lt=1, description="The ratio's lower bound is 1 - epsilon_low.")
    epsilon_high: float = Field(default=4e-4, gt=0, description="The ratio's upper bound is 1 + epsilon_high.")
    log_ratio_cap: float = Field(
        default=10.0,
        gt=0,
        le=40,
        description="A sequence's mean log-ratio above this many nats is cut and passes no gradient.",
    )


def gspo(batch: TokenBatch, params: GSPOParams) -> LossOutput:
    """PPO's clipped loss with one ratio a sequence, s = exp(mean over its tokens of log r), in its token form.

    Each token's loss is -min(s A, clip(s, low, high) A) with s carrying the gradient of that token's log pi.
    Gradient weight (the factor on A grad log pi): 0 for A < 0 with s < low and for A > 0 with s > high, s otherwise;
    where A is one number a sequence, a sequence is dropped as a whole.

    Args:
        batch: log-probabilities in nats and advantages, (B, T).
        params: bounds on the sequence ratio, low = 1 - epsilon_low and high = 1 + epsilon_high.
    Returns: per-token loss (B, T), always aggregated as the mean over sequences of their means; region masks and
        `ratio_BT` by the sequence ratio, which reads 1 at padding.
    Source: arXiv:2507.18071 eq. 5 and 13.
    """
    log_ratio_BT = batch.log_ratio_BT(None).detach()
    mean_B = log_ratio_BT.sum(-1) / batch.mask_BT.sum(-1).clamp(min=1)
    mean_BT = mean_B.unsqueeze(-1) * batch.mask_BT
    ratio_BT = mean_BT.clamp(max=params.log_ratio_cap).exp()
    unit_BT = batch.unit_BT(None).where(mean_BT <= params.log_ratio_cap, 1.0)
    return clipped(ratio_BT, unit_BT, batch.advantages_BT, params)
