"""The states of the random generators of a process."""

import random
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch


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
