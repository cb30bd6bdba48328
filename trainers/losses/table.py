"""`LOSSES`, the table of all policy losses, and `LossConfig`, the union of their parameters on `name`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from trainers.losses.clipped import DAPOParams, GRPOParams, GSPOParams, dapo, grpo, gspo
from trainers.losses.covariance import ClipCovParams, KLCovParams, clip_cov, kl_cov
from trainers.losses.gradient_preserving import CEGPPOParams, GPPOParams, ce_gppo, gppo
from trainers.losses.importance_weighted import CISPOParams, cispo

if TYPE_CHECKING:
    from collections.abc import Callable

    from trainers.losses.base import ClipParams, LossOutput
    from trainers.losses.batch import TokenBatch

LossConfig = (
    GRPOParams | DAPOParams | GPPOParams | CEGPPOParams | CISPOParams | GSPOParams | ClipCovParams | KLCovParams
)
"""Use it as a field with `Field(discriminator="name")`."""


class LossEntry(NamedTuple):
    """A row of `LOSSES`."""

    params: type[ClipParams]
    function: Callable[[TokenBatch, Any], LossOutput]
    """A pure function from a batch and parameters to a per-token loss."""


LOSSES: Final[dict[str, LossEntry]] = {
    "grpo": LossEntry(GRPOParams, grpo),
    "dapo": LossEntry(DAPOParams, dapo),
    "gppo": LossEntry(GPPOParams, gppo),
    "ce_gppo": LossEntry(CEGPPOParams, ce_gppo),
    "cispo": LossEntry(CISPOParams, cispo),
    "gspo": LossEntry(GSPOParams, gspo),
    "clip_cov": LossEntry(ClipCovParams, clip_cov),
    "kl_cov": LossEntry(KLCovParams, kl_cov),
}


def policy_loss(batch: TokenBatch, params: LossConfig) -> LossOutput:
    """Compute the per-token loss (B, T) that `params.name` stands for, with the region masks."""
    return LOSSES[params.name].function(batch, params)
