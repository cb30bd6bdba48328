"""Estimates the cost of a sweep's benchmarks beside its training, and with fewer samples. Pure."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pydantic import Field

from sweep_service.sweep.budget import StageCounts
from sweep_service.sweep.cost import Measured
from sweep_service.sweep.evaluations import most_evaluations
from sweep_service.sweep.records import Record
from sweep_service.sweep.spec import SweepSpec
from trainers.benchmarks.known_benchmarks import usual

_HOUR_S = 3600.0


class Sampled(Record):
    """The completions of all models on all benchmarks, and what they cost."""

    completions: int
    tokens: int = Field(description="If every completion were as long as it may be.")
    hours: float | None = Field(
        description="GPU-hours (CPU-hours without GPUs) for these tokens at the speed that a probe has measured."
    )
    error: float = Field(
        description="Standard error of a model's mean over the benchmarks that comes from sampling, where it is "
        "largest: at problems that half of the completions solve."
    )


class BenchmarksPlan(Record):
    """The most that a sweep's evaluations on benchmarks can be, and what they cost."""

    models: int = Field(description="Models to be measured, the initial one included.")
    samples: dict[str, int] = Field(description="Completions of each problem, by benchmark.")
    problems: dict[str, int]
    planned: Sampled
    fewer_samples: int | None = Field(
        description="A smaller `samples`, a quarter of the largest; null if there is none."
    )
    fewer: Sampled | None = Field(description="With these.")


class _Benchmark(NamedTuple):
    problems: int
    samples: int
    longest: int


def benchmarks_plan(
    spec: SweepSpec, counts: StageCounts, problems: Mapping[str, int], measured: Measured | None
) -> BenchmarksPlan | None:
    """Return the cost of a sweep's benchmarks; None where it names none.

    Args:
        problems: number of problems of each benchmark.
        measured: figures of a cost probe of the sweep's shape.
    """
    if spec.benchmarks is None:
        return None
    models, planned = most_evaluations(spec, *counts), dict[str, _Benchmark]()
    for name in spec.benchmarks.names:
        own, asked = usual(name), spec.benchmarks
        planned[name] = _Benchmark(problems[name], asked.samples or own.samples, asked.longest or own.max_tokens)
    most = max(benchmark.samples for benchmark in planned.values())
    fewer = max(1, most // 4)
    smaller = [one._replace(samples=min(one.samples, fewer)) for one in planned.values()]
    return BenchmarksPlan(
        models=models,
        samples={name: benchmark.samples for name, benchmark in planned.items()},
        problems={name: benchmark.problems for name, benchmark in planned.items()},
        planned=_sampled(spec, models, list(planned.values()), measured),
        fewer_samples=fewer if fewer < most else None,
        fewer=_sampled(spec, models, smaller, measured) if fewer < most else None,
    )


def _sampled(spec: SweepSpec, models: int, benchmarks: Sequence[_Benchmark], measured: Measured | None) -> Sampled:
    resources = spec.evaluation_resources
    completions = [one.problems * one.samples for one in benchmarks]
    tokens = models * sum(n * one.longest for n, one in zip(completions, benchmarks, strict=True))
    hours = None
    if measured is not None:
        seconds = tokens / measured.figures.sampled_tokens_per_second
        hours = seconds / _HOUR_S * (resources.gpus or resources.cpus)
    variance = sum(0.25 / n for n in completions) / len(benchmarks) ** 2
    return Sampled(completions=models * sum(completions), tokens=tokens, hours=hours, error=math.sqrt(variance))
