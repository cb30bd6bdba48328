"""The processes that train one policy together."""

import torch
from accelerate import PartialState


def process_state() -> PartialState:
    """This process among those started together (torchrun, accelerate); alone, if there are no others."""
    return PartialState(cpu=not torch.cuda.is_available())
