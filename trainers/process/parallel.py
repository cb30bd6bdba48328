"""The processes that train one policy together."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final, TypeVar

import torch
from accelerate import PartialState
from accelerate.utils import broadcast_object_list

PATIENCE: Final = timedelta(hours=2)
"""How long a process may wait for the others: while the longest completions are written, a checkpoint is saved, or
vLLM's server starts. NCCL's own limit of 10 minutes would end such runs; the launcher sees who died."""

Result = TypeVar("Result")


def process_state() -> PartialState:
    """This process among those started together (torchrun, accelerate); alone, if there are no others."""
    return PartialState(cpu=not torch.cuda.is_available(), timeout=PATIENCE)


def shared(first: Callable[[Callable[[], Result]], Result], together: Callable[[], Result]) -> Result:
    """What the first process finds, on all of them; they join in if that turns out to take all of them.

    Args:
        first: called in the first process alone, with a function that does `together`; it may call it once.
        together: what all processes do at the same time.
    """
    if not process_state().is_main_process:
        if _told(None):
            together()
        return _told(None)
    joined = False

    def all_together() -> Result:
        nonlocal joined
        joined = _told(True)
        return together()

    result = first(all_together)
    if not joined:
        _told(False)
    return _told(result)


def _told(value: Any) -> Any:
    """The first process's value, on all of them."""
    values = [value]
    broadcast_object_list(values)
    return values[0]
