"""The states of the random generators of a process."""

import random
from collections.abc import Callable, Generator
from contextlib import contextmanager

import numpy as np
import torch


def remembered_random_state() -> Callable[[], None]:
    """Read the states of all generators that training draws from; return a function that puts them back."""
    python, numpy = random.getstate(), np.random.get_state()
    torch_cpu, torch_cuda = torch.get_rng_state(), torch.cuda.get_rng_state_all()

    def restore() -> None:
        random.setstate(python)
        np.random.set_state(numpy)
        torch.set_rng_state(torch_cpu)
        torch.cuda.set_rng_state_all(torch_cuda)

    return restore


@contextmanager
def own_random_state(seed: int) -> Generator[None]:
    """Seed every generator for the block and restore their states after it, so that training is not affected."""
    restore = remembered_random_state()
    try:
        random.seed(seed)
        np.random.seed(seed % 2**32)
        torch.manual_seed(seed)
        yield
    finally:
        restore()
