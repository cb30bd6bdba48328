"""The processes that train one policy together."""

from datetime import timedelta
from typing import Final

import torch
from accelerate import PartialState

PATIENCE: Final = timedelta(hours=2)
"""How long a process may wait for the others: while the longest completions are written, a checkpoint is saved, or
vLLM's server starts. NCCL's own limit of 10 minutes would end such runs; who died is seen by `trainers.launch`."""


def process_state() -> PartialState:
    """This process among those started together (torchrun, accelerate); alone, if there are no others."""
    return PartialState(cpu=not torch.cuda.is_available(), timeout=PATIENCE)
