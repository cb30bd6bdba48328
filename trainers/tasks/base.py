"""What training and evaluation need of a task."""

import random
from collections.abc import Sequence
from typing import NamedTuple, Protocol


class Problem(NamedTuple):
    """A prompt and what is needed to judge answers to it."""

    prompt: str
    answer: str


class Task(Protocol):
    """Problems of two disjoint sets and a reward."""

    @property
    def training(self) -> Sequence[Problem]:
        """Problems to train on, in a fixed order."""
        ...

    @property
    def validation(self) -> Sequence[Problem]:
        """Problems kept from training, in a fixed order."""
        ...

    def reward(self, problem: Problem, completion: str, *, truncated: bool) -> float:
        """What `completion` is worth; `truncated` if it was cut before its end token, which is not part of it."""
        ...


def prompts_of_run(num_problems: int, num_prompts: int, seed: int) -> list[int]:
    """The indices of all training prompts of a run, in order: a fresh permutation of the problems for each epoch.

    A pure function, so that the prompts of rollout i depend on the seed and i alone, however often a run is resumed;
    a longer run starts with the prompts of a shorter one.
    """
    indices: list[int] = []
    for epoch in range(-(-num_prompts // num_problems)):
        indices += random.Random(f"prompts/{seed}/{epoch}").sample(range(num_problems), num_problems)
    return indices[:num_prompts]
