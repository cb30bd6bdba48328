"""Losses that single out tokens by the covariance of log-probability and advantage, to slow the fall of entropy."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from trainers.losses.base import NO_BOUND, EpsilonHigh, LossOutput, TokenRatioParams, UnlimitedEpsilonLow, regions
from trainers.losses.clipped import token_clipped

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor

    from trainers.losses.batch import TokenBatch


class ClipCovParams(TokenRatioParams):
    """Clip-Cov. Defaults: the authors' 7B recipe, whose epsilons of 1 leave next to nothing to PPO's clip."""

    epsilon_below: ClassVar[float] = NO_BOUND

    name: Literal["clip_cov"] = "clip_cov"
    epsilon_low: UnlimitedEpsilonLow = 1.0
    epsilon_high: EpsilonHigh = 1.0
    selected_share: float = Field(
        default=2e-4, gt=0, le=1, description="Share of a device batch's tokens that are dropped; at least one token."
    )
    covariance_low: float = Field(
        default=1.0, ge=-1e6, le=1e6, description="Tokens are drawn from those with a covariance above this,"
    )
    covariance_high: float = Field(default=5.0, ge=-1e6, le=1e6, description="and below this; nats.")

    def _refusals(self) -> Iterator[str]:
        if self.covariance_high <= self.covariance_low:
            yield (
                f"covariance_high {self.covariance_high} must exceed covariance_low {self.covariance_low}; "
                "no token could be drawn"
            )


class KLCovParams(TokenRatioParams):
    """KL-Cov. Defaults: the authors' 7B recipe. Nothing is clipped: the epsilons only say what the regions report."""

    name: Literal["kl_cov"] = "kl_cov"
    selected_share: float = Field(
        default=2e-3, gt=0, le=1, description="Share of a device batch's tokens that are penalised; at least one token."
    )
    kl_coefficient: float = Field(
        default=1.0, ge=0, le=1e6, description="Factor on the absolute log-ratio of those tokens."
    )


def clip_cov(batch: TokenBatch, params: ClipCovParams) -> LossOutput:
    """PPO's clipped loss without a few tokens, drawn at random among those of high covariance.

    Candidates are the tokens with covariance_low < c < covariance_high that PPO's clip has not dropped. Those drawn
    have loss and gradient 0 and stay in the denominator. Gradient weight (the factor on A grad log pi): 0 for them,
    for A < 0 with r < low and for A > 0 with r > high; r otherwise.

    The batch's `selected_BT`, if there is one, replaces the draw.

    Source: arXiv:2505.22617 section 4.2 and its official code, whose rule for the number of tokens this is.
    """
    output = token_clipped(batch, params)
    selected_BT = batch.selected_BT
    if selected_BT is None:
        covariance_N, clipped_BT = _covariance_N(batch), output.regions["na_lp"] | output.regions["pa_lp"]
        above_N, below_N = covariance_N > params.covariance_low, covariance_N < params.covariance_high
        candidates = (above_N & below_N & ~clipped_BT[batch.mask_BT]).nonzero().squeeze(-1)
        order = covariance_N.new_empty(len(candidates)).uniform_(generator=batch.generator).argsort()
        selected_BT = _at(candidates[order[: _number(params.selected_share, covariance_N)]], batch.mask_BT)
    return replace(output, loss_BT=output.loss_BT.masked_fill(selected_BT, 0.0), selected_BT=selected_BT)


def kl_cov(batch: TokenBatch, params: KLCovParams) -> LossOutput:
    """-r A for all tokens, with a penalty on the change of those with the highest covariance: + kl_coefficient |log r|.

    Gradient: -r A, and for those tokens also + kl_coefficient sign(log r), 0 at r = 1. No ratio is clipped.

    Source: arXiv:2505.22617 section 4.2 and its official code, whose penalty this is; the paper writes a KL.
    """
    ratio_BT, advantages_BT = batch.ratio_BT(params.log_ratio_clamp), batch.advantages_BT
    covariance_N = _covariance_N(batch)
    number = min(_number(params.selected_share, covariance_N), len(covariance_N))
    selected_BT = _at(covariance_N.topk(number).indices, batch.mask_BT)
    penalty_BT = params.kl_coefficient * batch.log_ratio_BT(params.log_ratio_clamp).abs()
    loss_BT = -ratio_BT * batch.unit_BT(params.log_ratio_clamp) * advantages_BT + penalty_BT * selected_BT
    return LossOutput(loss_BT, regions(ratio_BT, advantages_BT, params), ratio_BT, selected_BT)


def _covariance_N(batch: TokenBatch) -> Tensor:
    """(A - mean A) (log pi - mean log pi) of the batch's N completion tokens; without the factor pi of the theory."""
    advantages_N, logprobs_N = batch.advantages_BT[batch.mask_BT], batch.logprobs_BT.detach()[batch.mask_BT]
    return (advantages_N - advantages_N.mean()) * (logprobs_N - logprobs_N.mean())


def _number(share: float, values_N: Tensor) -> int:
    return max(int(len(values_N) * share), 1)


def _at(chosen: Tensor, mask_BT: Tensor) -> Tensor:
    """Return a mask (B, T) that is true at the chosen completion tokens, which are counted row by row."""
    positions = mask_BT.flatten().nonzero().squeeze(-1)[chosen]
    return mask_BT.new_zeros(mask_BT.numel()).index_fill(0, positions, True).view_as(mask_BT)
