"""Policy losses by name: ours, and those that installed packages add by entry points of the group `sweeps.losses`.

docs/losses.md has a complete package with a loss.
"""

from __future__ import annotations

import sys
from functools import cache
from typing import TYPE_CHECKING, Final, cast

from trainers.errors import ConfigError
from trainers.extensions import Extensions, package
from trainers.losses.entry import entry_fault, output_fault
from trainers.losses.table import LOSSES, LossConfig

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from trainers.losses.base import LossOutput
    from trainers.losses.batch import TokenBatch
    from trainers.losses.entry import LossEntry

LOSS_NAMES: Final = Extensions(
    kind="policy loss",
    setting="loss.name",
    group="sweeps.losses",
    ours={name: f"{entry.function.__module__}:{entry.function.__name__}" for name, entry in LOSSES.items()},
)
"""All losses of this machine by name: ours, and those of installed packages."""


@cache
def loss_entry(name: str) -> LossEntry:
    """Return the loss with this name. A package's is imported now, and stays the same in this process.

    Raises: ConfigError, if there is none or more than one; with package and remedy, if it cannot be used.
    """
    entry_point = LOSS_NAMES.entry(name)
    if name in LOSSES:
        return LOSSES[name]
    entry = _loaded(entry_point)
    if isinstance(entry, str):
        raise ConfigError(
            f"loss.name: the loss {name!r} of {package(entry_point)} ({entry_point.value}) cannot be used: {entry}"
        )
    return entry


@cache
def _loaded(entry_point: EntryPoint) -> LossEntry | str:
    """Import what an entry point names; return why it cannot be used, which stays so in this process."""
    had_torch = "torch" in sys.modules
    try:
        entry = cast("object", entry_point.load())
    except (Exception, SystemExit) as error:  # noqa: BLE001 a package may raise anything
        return f"{type(error).__name__}: {error}; correct it, or install what it needs, or uninstall it"
    if not had_torch and "torch" in sys.modules:
        return (
            "importing it imports torch, which must not happen where configurations are only validated; import torch "
            "inside the function, and for annotations under TYPE_CHECKING"
        )
    return entry_fault(entry, entry_point.name) or cast("LossEntry", entry)


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
