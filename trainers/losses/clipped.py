"""Losses that drop the gradient of a token, or sequence, whose ratio left the bounds in its advantage's direction."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from trainers.losses.base import (
    AggregationName,
    Bounds,
    ClipParams,
    DualClip,
    DualClipParams,
    EpsilonHigh,
    EpsilonLow,
    LossOutput,
    TokenRatioParams,
    regions,
)
from trainers.losses.entropy_ratio import ERCOptionParams, entropy_ratio_clipped

if TYPE_CHECKING:
    from torch import Tensor

    from trainers.losses.batch import TokenBatch


class GRPOParams(DualClipParams):
    """PPO-clip with group-relative advantages. Defaults: arXiv:2509.20712's GRPO, both sides 0.2; no dual clip.

    Aggregated over tokens, as in that paper's code; arXiv:2402.03300 takes the mean over sequences of their means.
    """

    name: Literal["grpo"] = "grpo"
    dual_clip: DualClip = None


class DAPOParams(ERCOptionParams):
    """PPO-clip with a wider upper bound (clip-higher). Defaults: arXiv:2503.14476; dual clip of the verl recipes."""

    name: Literal["dapo"] = "dapo"
    epsilon_high: EpsilonHigh = 0.28


class GSPOParams(ClipParams):
    """GSPO. Defaults: arXiv:2507.18071 section 5.1; the cap is verl's."""

    own_aggregation: ClassVar[AggregationName] = "seq_mean_token_mean"
    fixed_aggregation: ClassVar[AggregationName | None] = "seq_mean_token_mean"

    name: Literal["gspo"] = "gspo"
    epsilon_low: EpsilonLow = 3e-4
    epsilon_high: EpsilonHigh = 4e-4
    log_ratio_cap: float = Field(
        default=10.0,
        gt=0,
        le=40,
        description="A sequence's mean log-ratio above this many nats is cut and passes no gradient.",
    )


def grpo(batch: TokenBatch, params: GRPOParams) -> LossOutput:
    """PPO's clipped loss, -min(r A, clip(r, low, high) A), with an optional dual clip.

    Gradient weight (the factor on A grad log pi): 0 for A < 0 with r < low, for A > 0 with r > high and for A < 0
    with r > dual_clip; r otherwise.

    Source: arXiv:1707.06347 eq. 7; dual clip arXiv:1912.09729.
    """
    return token_clipped(batch, params)


def dapo(batch: TokenBatch, params: DAPOParams) -> LossOutput:
    """`grpo` with other defaults, and with entropy-ratio clipping where asked for.

    Source: arXiv:2503.14476 eq. 8; entropy ratio arXiv:2512.05591.
    """
    return entropy_ratio_clipped(token_clipped(batch, params), batch, params.erc)


def gspo(batch: TokenBatch, params: GSPOParams) -> LossOutput:
    """PPO's clipped loss with one ratio a sequence, s = exp(mean over its tokens of log r), in its token form.

    Each token's loss is -min(s A, clip(s, low, high) A) with s carrying the gradient of that token's log pi.
    Gradient weight (the factor on A grad log pi): 0 for A < 0 with s < low and for A > 0 with s > high, s otherwise;
    where A is one number a sequence, a sequence is dropped as a whole.

    The loss is always aggregated as the mean over sequences of their means. The bounds are on the sequence ratio, and
    region masks and `ratio_BT` go by it; it reads 1 at padding.

    Source: arXiv:2507.18071 eq. 5 and 13.
    """
    log_ratio_BT = batch.log_ratio_BT(None).detach()
    mean_B = log_ratio_BT.sum(-1) / batch.mask_BT.sum(-1).clamp(min=1)
    mean_BT = mean_B.unsqueeze(-1) * batch.mask_BT
    ratio_BT = mean_BT.clamp(max=params.log_ratio_cap).exp()
    unit_BT = batch.unit_BT(None).where(mean_BT <= params.log_ratio_cap, 1.0)
    return clipped(ratio_BT, unit_BT, batch.advantages_BT, params)


def token_clipped(batch: TokenBatch, params: TokenRatioParams, bounds: Bounds | None = None) -> LossOutput:
    """PPO's clipped loss with each token's own ratio, and with a dual clip if the parameters have one.

    Args:
        bounds: bounds found from the tokens, in place of the parameters' own.
    """
    clamp, advantages_BT = params.log_ratio_clamp, batch.advantages_BT
    output = clipped(batch.ratio_BT(clamp), batch.unit_BT(clamp), advantages_BT, bounds or params)
    output = replace(output, bounds=bounds)
    return dual_clipped(output, advantages_BT, params.dual_clip) if isinstance(params, DualClipParams) else output


def clipped(ratio_BT: Tensor, unit_BT: Tensor, advantages_BT: Tensor, params: ClipParams | Bounds) -> LossOutput:
    """-ratio A with the gradient of `unit_BT` inside the bounds; outside the value at the bound, without a gradient.

    Args:
        ratio_BT: of tokens or sequences, without a gradient.
        unit_BT: 1 with the gradient of log pi.
        params: bounds on the ratio, for all tokens or for each.
    """
    masks = regions(ratio_BT, advantages_BT, params)
    kept_BT = -ratio_BT * unit_BT * advantages_BT
    bound_BT = -ratio_BT.clamp(params.low, params.high) * advantages_BT
    return LossOutput(bound_BT.where(masks["na_lp"] | masks["pa_lp"], kept_BT), masks, ratio_BT)


def dual_clipped(output: LossOutput, advantages_BT: Tensor, bound: float | None) -> LossOutput:
    """Hold the loss of tokens with A < 0 and a ratio above `bound` at bound * |A|, without a gradient."""
    if bound is None:
        return output
    beyond_BT = (advantages_BT < 0) & (output.ratio_BT > bound)
    return replace(output, loss_BT=(-bound * advantages_BT).where(beyond_BT, output.loss_BT))
