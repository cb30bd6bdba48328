"""Our policy losses: `LOSSES` by name, and `LossConfig`, the union of their parameters on `name`.

`trainers.losses` exports every name here that does not begin with an underscore.
"""

from trainers.losses.clipped import DAPOParams, GRPOParams, GSPOParams, dapo, grpo, gspo
from trainers.losses.covariance import ClipCovParams, KLCovParams, clip_cov, kl_cov
from trainers.losses.dynamic_bounds import BAPOParams, DCPOParams, bapo, dcpo
from trainers.losses.entry import LossEntry
from trainers.losses.gradient_preserving import CEGPPOParams, GPPOParams, ce_gppo, gppo
from trainers.losses.importance_weighted import CISPOParams, cispo

LossConfig = (
    GRPOParams
    | DAPOParams
    | GPPOParams
    | CEGPPOParams
    | CISPOParams
    | GSPOParams
    | ClipCovParams
    | KLCovParams
    | DCPOParams
    | BAPOParams
)
"""Parameters of our losses. A field that takes those of packages as well is an `AnyLoss`."""

LOSSES: dict[str, LossEntry] = {
    "grpo": LossEntry(GRPOParams, grpo),
    "dapo": LossEntry(DAPOParams, dapo),
    "gppo": LossEntry(GPPOParams, gppo),
    "ce_gppo": LossEntry(CEGPPOParams, ce_gppo),
    "cispo": LossEntry(CISPOParams, cispo),
    "gspo": LossEntry(GSPOParams, gspo),
    "clip_cov": LossEntry(ClipCovParams, clip_cov),
    "kl_cov": LossEntry(KLCovParams, kl_cov),
    "dcpo": LossEntry(DCPOParams, dcpo),
    "bapo": LossEntry(BAPOParams, bapo),
}
