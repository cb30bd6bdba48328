"""The state of every random generator that training draws from."""

import random
from typing import Any, NamedTuple

import numpy as np
import torch


class RandomState(NamedTuple):
    """Taken before something that may have to be undone."""

    python: Any
    numpy: Any
    torch_cpu: torch.Tensor
    torch_cuda: list[torch.Tensor]

    @classmethod
    def taken(cls) -> "RandomState":
        """The present state."""
        return cls(random.getstate(), np.random.get_state(), torch.get_rng_state(), torch.cuda.get_rng_state_all())

    def restore(self) -> None:
        """Put it back."""
        random.setstate(self.python)
        np.random.set_state(self.numpy)
        torch.set_rng_state(self.torch_cpu)
        torch.cuda.set_rng_state_all(self.torch_cuda)
