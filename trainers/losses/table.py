"""`LOSSES`, the table of all policy losses, and `LossConfig`, the union of their parameters on `name`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from trainers.losses.clipped import DAPOParams, GRPOParams, clipped
from trainers.losses.gradient_preserving import CEGPPOParams, ce_gppo

if TYPE_CHECKING:
    from trainers.losses.base import ClipParams, LossOutput, PolicyLoss, TokenBatch

LossConfig = GRPOParams | DAPOParams | CEGPPOParams
"""Use it as a field with `Field(discriminator="name")`."""


class LossEntry(NamedTuple):
    """A row of `LOSSES`."""

    params: type[ClipParams]
    function: PolicyLoss[Any]


LOSSES: Final[dict[str, LossEntry]] = {
    "grpo": LossEntry(GRPOParams, clipped),
    "dapo": LossEntry(DAPOParams, clipped),
    "ce_gppo": LossEntry(CEGPPOParams, ce_gppo),
}


def policy_loss(batch: TokenBatch, params: LossConfig) -> LossOutput:
    """The per-token loss (B, T) that `params.name` stands for, with the region masks."""
    return LOSSES[params.name].function(batch, params)
