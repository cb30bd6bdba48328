"""The processes that train one policy together."""

import os
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final, TypeVar

import torch
from accelerate import PartialState
from accelerate.utils import broadcast_object_list

from trainers.process.environment import RENDEZVOUS

PATIENCE: Final = timedelta(hours=2)
"""Longest time that a process may wait for the others: while the longest completions are sampled, a checkpoint is
saved, or vLLM's server starts. NCCL's own limit of 10 minutes would end such runs; the launcher sees who died."""

Result = TypeVar("Result")


def process_state() -> PartialState:
    """Return this process's place among those started together, by our launcher, torchrun or accelerate.

    Ours meet in a file, for torch's server listens at all addresses and lets everybody write.
    """
    place = os.environ.get(RENDEZVOUS)
    meeting: dict[str, Any] = {}
    if place:
        names = {"rank": "RANK", "world_size": "WORLD_SIZE"}
        meeting = {"init_method": f"file://{place}"} | {key: int(os.environ[name]) for key, name in names.items()}
    return PartialState(cpu=not torch.cuda.is_available(), timeout=PATIENCE, **meeting)


def shared(first: Callable[[Callable[[], Result]], Result], together: Callable[[], Result]) -> Result:
    """Return the first process's result on all processes; they join in if computing it needs all of them.

    Args:
        first: called in the first process alone, with a function that does `together`; it may call it once.
        together: work that all processes do at the same time.
    """
    if not process_state().is_main_process:
        if _broadcast(None):
            together()
        return _broadcast(None)
    joined = False

    def all_together() -> Result:
        nonlocal joined
        joined = _broadcast(True)
        return together()

    result = first(all_together)
    if not joined:
        _broadcast(False)
    return _broadcast(result)


def _broadcast(value: Any) -> Any:
    """Return the first process's value on all processes."""
    values = [value]
    broadcast_object_list(values)
    return values[0]
