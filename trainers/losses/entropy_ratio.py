"""Entropy-ratio clipping (erc), an option of other losses, and the penalty that summaries of it describe."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Final, Literal

from pydantic import Field

from trainers.losses.aggregation import token_mean
from trainers.losses.base import DualClipParams, LossOutput, Params

if TYPE_CHECKING:
    from torch import Tensor

    from trainers.losses.batch import TokenBatch

_ENTROPY_OFFSET_NATS: Final = 1e-8


class ERCMask(Params):
    """Drop the gradient of tokens whose entropy changed too much. Defaults: the recipes of arXiv:2512.05591."""

    mode: Literal["mask"] = "mask"
    low: float = Field(
        default=0.95, ge=0, lt=1, description="Tokens whose entropy ratio is at most this pass no gradient."
    )
    high: float = Field(
        default=1.05, gt=1, le=1e12, description="Tokens whose entropy ratio is at least this pass no gradient."
    )


class ERCPenalty(Params):
    """Penalise a change of the mean entropy. Not the paper's: what second-hand summaries of it describe."""

    mode: Literal["penalty"] = "penalty"
    low: float = Field(default=0.9, ge=0, le=1, description="No penalty down to this ratio of mean entropies.")
    high: float = Field(default=1.1, ge=1, le=1e12, description="No penalty up to this ratio of mean entropies.")
    coefficient: float = Field(default=0.1, gt=0, le=1e6, description="Factor on the squared distance from the bounds.")


ERCConfig = Annotated[ERCMask | ERCPenalty, Field(discriminator="mode")]


class ERCOptionParams(DualClipParams):
    """Parameters of losses that offer entropy-ratio clipping."""

    erc: ERCConfig | None = Field(default=None, description="Entropy-ratio clipping; null: none.")


def entropy_ratio_clipped(output: LossOutput, batch: TokenBatch, erc: ERCMask | ERCPenalty | None) -> LossOutput:
    """Apply what `erc` asks for to another loss's output, after its clips.

    mask: a token keeps its gradient only if low < (H + 1e-8) / (H_old + 1e-8) < high. A dropped token keeps its value
    and stays in the denominator; `selected_BT` marks it. Entropies, in nats, carry no gradient here.

    penalty: coefficient * distance^2, where distance is how far the ratio of the mean entropies, over the batch's
    tokens, lies outside [low, high]. Its gradient goes through the entropy of the policy being trained.

    Raises: ValueError, if the batch has no entropies.
    Source: arXiv:2512.05591, by its official code: the paper's formula has the value 0 for a dropped token.
    """
    if erc is None:
        return output
    entropy_BT, old_entropy_BT = batch.needed("entropy_BT", "erc"), batch.needed("old_entropy_BT", "erc")
    if isinstance(erc, ERCPenalty):
        means = token_mean(entropy_BT, batch.mask_BT), token_mean(old_entropy_BT, batch.mask_BT)
        ratio = _ratio(*means)
        return replace(output, penalty=erc.coefficient * (ratio - ratio.clamp(erc.low, erc.high)).square())
    ratio_BT = _ratio(entropy_BT.detach(), old_entropy_BT)
    kept_BT = (ratio_BT > erc.low) & (ratio_BT < erc.high)
    loss_BT = output.loss_BT.where(kept_BT, output.loss_BT.detach())
    return replace(output, loss_BT=loss_BT, selected_BT=~kept_BT & batch.mask_BT)


def _ratio(entropy: Tensor, old_entropy: Tensor) -> Tensor:
    return (entropy + _ENTROPY_OFFSET_NATS) / (old_entropy + _ENTROPY_OFFSET_NATS)
