"""`LOSSES`, the table of our policy losses, `LossConfig`, the union of their parameters on `name`, and losses by name.

A package adds a loss with an entry point of the group `sweeps.losses`; docs/losses.md has a complete one.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

from trainers.errors import ConfigError
from trainers.extensions import Extensions, package
from trainers.losses.clipped import DAPOParams, GRPOParams, GSPOParams, dapo, grpo, gspo
from trainers.losses.covariance import ClipCovParams, KLCovParams, clip_cov, kl_cov
from trainers.losses.dynamic_bounds import BAPOParams, DCPOParams, bapo, dcpo
from trainers.losses.entry import LossEntry, load_entry, output_fault
from trainers.losses.gradient_preserving import CEGPPOParams, GPPOParams, ce_gppo, gppo
from trainers.losses.importance_weighted import CISPOParams, cispo

if TYPE_CHECKING:
    from trainers.losses.base import LossOutput
    from trainers.losses.batch import TokenBatch

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


LOSSES: Final[dict[str, LossEntry]] = {
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


LOSS_NAMES: Final = Extensions(
    kind="policy loss",
    setting="loss.name",
    group="sweeps.losses",
    ours={name: f"{entry.function.__module__}:{entry.function.__name__}" for name, entry in LOSSES.items()},
)
"""All losses of this machine by name: ours, and those of installed packages."""


@cache
def loss_entry(name: str) -> LossEntry:
    """Return the loss of this name, of which a package's is imported now; what a name stands for stays in a process.

    Raises: ConfigError, if there is none or more than one, or if it cannot be used.
    """
    found = LOSS_NAMES.entry(name)
    return LOSSES[name] if name in LOSSES else load_entry(found)


def policy_loss(batch: TokenBatch, params: LossConfig) -> LossOutput:
    """Compute the per-token loss (B, T) that `params.name` stands for, with the region masks.

    Raises: ConfigError, if the loss of a package returns something else than its contract says.
    """
    if params.name in LOSSES:
        return LOSSES[params.name].function(batch, params)
    output = loss_entry(params.name).function(batch, params)
    if fault := output_fault(output, batch):
        owner = package(LOSS_NAMES.entry(params.name))
        raise ConfigError(
            f"loss.name: {params.name!r} of {owner} returned {fault}; correct it, and test it with "
            "trainers.losses.contract"
        )
    return output
