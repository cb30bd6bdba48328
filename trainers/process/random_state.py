"""The random generators of a process: their states, and the seeds of a run's independent streams.

A stream's numbers follow from the run's seed and the place in the run, so an interrupted run resumes exactly.
"""

import random
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import numpy as np
import torch

BASE_EVALUATION_SEED: Final = 0
"""Seed of the evaluation of an initial model, whatever the run's own seed, so that all runs share its result."""


def rollout_seed(run_seed: int, prompts_read: int) -> int:
    """Return the seed of vLLM for the sampling round that begins at this place in the stream of prompts."""
    return hash((run_seed, prompts_read, 1))


def evaluation_seed(run_seed: int, step: int) -> int:
    """Return the seed of the evaluation after this many updates."""
    return hash((run_seed, step))


def loss_seed(run_seed: int, device_batch: int, rank: int) -> int:
    """Return the seed of a loss that draws, for one device batch (counted over the run) of one process."""
    return hash((run_seed, device_batch, rank)) % 2**63


class RandomState(NamedTuple):
    """The states of all generators that training draws from, taken before something that may have to be undone."""

    python: Any
    numpy: Any
    torch_cpu: torch.Tensor
    torch_cuda: list[torch.Tensor]

    @classmethod
    def taken(cls) -> "RandomState":
        """Read the present states."""
        return cls(random.getstate(), np.random.get_state(), torch.get_rng_state(), torch.cuda.get_rng_state_all())

    def restore(self) -> None:
        """Put the states back."""
        random.setstate(self.python)
        np.random.set_state(self.numpy)
        torch.set_rng_state(self.torch_cpu)
        torch.cuda.set_rng_state_all(self.torch_cuda)


@contextmanager
def own_random_state(seed: int) -> Generator[None]:
    """Seed every generator for the block and restore their states after it, so that training is not affected."""
    before = RandomState.taken()
    try:
        random.seed(seed)
        np.random.seed(seed % 2**32)
        torch.manual_seed(seed)
        yield
    finally:
        before.restore()
