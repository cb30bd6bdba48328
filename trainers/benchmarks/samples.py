"""`samples.jsonl`: one line a completion, in one fixed order, batch by batch. Imports no torch.

A batch is written whole, then synced. So the file always begins like the finished one, followed by at most a part of
one batch, which opening removes.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple, Self

from pydantic import Field, ValidationError

from trainers.config import Frozen
from trainers.errors import ConfigError
from trainers.tasks.base import Completion, Judgement

SAMPLES_FILE: Final = "samples.jsonl"


class Place(NamedTuple):
    """The place of a sample: a problem's id, and the index among its completions."""

    problem: str
    sample: int


class BenchmarkSample(Frozen):
    """A line of the file."""

    problem: str = Field(description="The problem's id.")
    sample: int = Field(description="Index of this completion among the problem's samples, from 0.")
    batch_end: int = Field(description="Lines of the file when this one's batch is complete.")
    completion: str
    tokens: int
    truncated: bool
    reward: float | None = Field(description="Null: the judge failed.")
    correct: bool
    answer: str | None
    timed_out: bool

    @classmethod
    def of(cls, place: Place, batch_end: int, completion: Completion, judgement: Judgement) -> Self:
        """Make the line of one judged completion."""
        return cls(
            problem=place.problem,
            sample=place.sample,
            batch_end=batch_end,
            completion=completion.text,
            tokens=completion.tokens,
            truncated=completion.truncated,
            **{field: value for field, value in judgement._asdict().items() if field != "parts"},
        )


class SampleWriter:
    """Appends whole batches to the file in `folder`.

    Args:
        order: the places of all lines that the file will have.
    Raises: ConfigError, if the lines already there do not begin that order.
    """

    def __init__(self, folder: Path, order: Sequence[Place]) -> None:
        path = folder / SAMPLES_FILE
        self.done = _keep_whole_batches(path, order) if path.exists() else 0
        self._file = path.open("a", encoding="utf-8")

    def write(self, batch: Sequence[BenchmarkSample]) -> None:
        """Append a batch and return once it is on the disk."""
        self._file.write("".join(sample.model_dump_json() + "\n" for sample in batch))
        self._file.flush()
        os.fsync(self._file.fileno())
        self.done += len(batch)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()


def read_samples(path: Path) -> Iterator[BenchmarkSample]:
    """Yield the samples of all whole lines. Raises: ConfigError, if a line is not a sample."""
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if line.endswith(b"\n"):
                try:
                    yield BenchmarkSample.model_validate_json(line)
                except ValidationError as error:
                    raise ConfigError(
                        f"{path}, line {number}: it is not a sample ({error}); remove {path.parent}, or name "
                        "another folder"
                    ) from error


def _keep_whole_batches(path: Path, order: Sequence[Place]) -> int:
    """Cut the file after its last whole batch and return how many lines that leaves."""
    batch_ends = list[int]()
    for place, sample in zip(order, read_samples(path), strict=False):
        if (sample.problem, sample.sample) != place:
            raise ConfigError(
                f"{path}, line {len(batch_ends) + 1}: sample {sample.sample} of {sample.problem}, "
                f"expected {place.sample} of {place.problem}; remove {path.parent}, or name another folder"
            )
        batch_ends.append(sample.batch_end)
    whole_lines = sum(end <= len(batch_ends) for end in batch_ends)
    with path.open("rb+") as file:
        for _ in range(whole_lines):
            file.readline()
        file.truncate(file.tell())
    return whole_lines
