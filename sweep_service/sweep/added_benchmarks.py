"""Benchmarks that are added to a sweep after its end: the user's request, and its stored form. Pure."""

from typing import Annotated

from pydantic import Field

from sweep_service.sweep.spec import BenchmarkSettings

BEST, EVERY = "best", "all"
"""Words that name configs beside the words of roles and the ids of configs."""


class BenchmarksRequest(BenchmarkSettings):
    """A user's request for more benchmarks of a finished sweep."""

    of: tuple[Annotated[str, Field(min_length=1, max_length=100)], ...] = Field(
        default=(BEST, "baseline"),
        min_length=1,
        max_length=1000,
        description="Configs: best, baseline, dapo, matched, all, or ids of configs.",
    )


class AddedBenchmarks(BenchmarkSettings):
    """Benchmarks on which the last models of some trials are measured, though the sweep's spec does not ask for it.

    One that the spec or an earlier request names is sampled as there.
    """

    trials: tuple[str, ...]
    """Ids of the trials."""
