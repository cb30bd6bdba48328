"""`CASES`: the record of each loss of `LOSSES`, from the module here that is named as the loss's own."""

from importlib import import_module

from tests.losses.loss_case import LossCase
from trainers.losses import LOSSES

MODULES = {name: entry.function.__module__.rpartition(".")[2] for name, entry in LOSSES.items()}
"""Loss -> the module that it is in, below `trainers.losses`."""

CASES: dict[str, LossCase] = {
    name: import_module(f"tests.losses.{module}").CASES[name] for name, module in MODULES.items()
}
