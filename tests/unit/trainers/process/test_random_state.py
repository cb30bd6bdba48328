import random

import numpy as np
import torch

from trainers.process.random_state import own_random_state


def test_generators_are_seeded_inside_and_untouched_outside() -> None:
    def draw() -> tuple[float, float, float]:
        return random.random(), float(np.random.rand()), torch.rand(()).item()

    states = random.getstate(), torch.random.get_rng_state()
    with own_random_state(5):
        inside = draw()
    assert random.getstate() == states[0]
    assert torch.equal(torch.random.get_rng_state(), states[1])
    draw()
    with own_random_state(5):
        assert draw() == inside
