"""Seeds of a run's streams of random numbers, each derived by the stream's name and the place in the run.

They follow from the run's seed and the place alone, so an interrupted run resumes exactly. Training's own streams are
older than this derivation and stay as they are: torch's generators begin with the run's seed, prompts are ordered by
`trainers.tasks.base.prompt_at`, and losses that draw have `loss_seed`.
"""

from collections.abc import Callable
from typing import Final, Literal
from zlib import crc32

from numpy import uint64
from numpy.random import SeedSequence

BASE_EVALUATION_SEED: Final = 0
"""Seed of the evaluation of an initial model, whatever the run's own seed, so that all runs share its result."""

Stream = Literal["evaluation", "rollout", "process", "part", "copy"]
"""Evaluation after so many updates; vLLM's sampling round after so many prompts; below them a process's own draws, a
part of a batch that begins at this prompt, a copy of vLLM."""


def loss_seed(run_seed: int, device_batch: int, rank: int) -> int:
    """Return the seed of a loss that draws, for one device batch (counted over the run) of one process."""
    return hash((run_seed, device_batch, rank)) % 2**63


def derived_seed(parent: int, stream: Stream, place: int) -> int:
    """Return the seed, below 2**64, of a place in a stream below the seed `parent`.

    NumPy's SeedSequence keeps streams apart: neighbouring seeds, places and names give unrelated numbers.
    """
    key = (crc32(stream.encode()), place)
    return int(SeedSequence(parent, spawn_key=key).generate_state(1, uint64)[0])


def _first_derivation(parent: int, stream: Stream, place: int) -> int:
    """Return the seed by the sums of version 0.1.0, in which two streams can coincide."""
    match stream:
        case "evaluation":
            return hash((parent, place))
        case "rollout":
            return hash((parent, place, 1))
        case _:
            return (parent + place) % 2**32


DERIVATION: Final = 2
"""The number of the derivation that new runs use. A checkpoint holds it, and a run goes on as it began."""

DERIVATIONS: Final[dict[int, Callable[[int, Stream, int], int]]] = {1: _first_derivation, DERIVATION: derived_seed}
