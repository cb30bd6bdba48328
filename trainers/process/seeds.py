"""Seeds of a run's streams of random numbers, each derived by the stream's name and the place in the run.

They follow from the run's seed and the place alone, so an interrupted run resumes exactly. Training's own streams are
older than this derivation and stay as they are: torch's generators begin with the run's seed, prompts are ordered by
`trainers.tasks.base.prompt_at`, and losses that draw have `loss_seed`.
"""

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


DERIVATION: Final = 2
"""The number of this way to derive seeds. A checkpoint holds it: a run goes on with the seeds it began with."""
