"""Turns the words of the command line into evaluations, or into one error that names everything wrong."""

import argparse
import platform
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from typing import Any, Final

from pydantic import ValidationError

from trainers.benchmarks.job import BenchmarkSampling, Job
from trainers.benchmarks.known_benchmarks import usual
from trainers.benchmarks.problems import read_problems
from trainers.benchmarks.run import BenchmarkEvaluation, all_of
from trainers.benchmarks.sampler import device, has_chat_template
from trainers.errors import ConfigError
from trainers.policy.model_folder import model_digest
from trainers.rewards import known_names

_LIBRARIES: Final = ("torch", "transformers", "tokenizers", "math-verify")


def requested(options: argparse.Namespace) -> tuple[int, list[BenchmarkEvaluation]]:
    """Return the batch size and the evaluations that the command line asks for.

    Raises: ConfigError, with every reason why they cannot be made.
    """
    names = list(dict.fromkeys(str(options.benchmark).split(",")))
    checks: list[Callable[[], Any]] = [partial(model_digest, options.model), partial(_batch, options.batch)]
    checks += [partial(read_problems, name, options.cache) for name in names]
    checks += [partial(_sampling, name, options) for name in names]
    digest, batch, *details = all_of(checks)  # first the problems of each benchmark, then the sampling of each
    versions = {"python": platform.python_version(), **{library: version(library) for library in _LIBRARIES}}
    evaluations = [
        BenchmarkEvaluation(
            Job(
                benchmark=name,
                problems=len(problems.problems),
                problems_origin=problems.origin,
                problems_sha256=problems.sha256,
                model_sha256=digest,
                sampling=sampling,
                device=device(),
                versions=versions,
            ),
            problems.problems,
            options.output / name,
        )
        for name, problems, sampling in zip(names, details, details[len(names) :], strict=False)
    ]
    return batch, evaluations


def _batch(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise ConfigError(f"--batch: expected a whole number from 1 (got {text!r})")
    return int(text)


def _sampling(name: str, options: argparse.Namespace) -> BenchmarkSampling:
    """Return the benchmark's usual sampling, changed as the command line says."""
    options_by_field = {
        field: value for field in BenchmarkSampling.model_fields if (value := getattr(options, field, None)) is not None
    }
    template = has_chat_template(options.model)
    faults = list[str]()
    if options.prompt == "chat" and not template:
        faults.append(f"--prompt chat: the tokenizer in {options.model} has no chat template; use plain")
    if options.reward is not None and options.reward not in known_names():
        faults.append(f"--reward: there is no {options.reward!r}; known are {', '.join(known_names())}")
    benchmark = usual(name)
    settings = {field: value for field, value in benchmark._asdict().items() if field in BenchmarkSampling.model_fields}
    chat = options.prompt == "chat" or (options.prompt == "auto" and benchmark.chat)
    other = {"chat": chat and template, "dtype": "bfloat16" if device() == "cuda" else "float32"}
    try:
        sampling = BenchmarkSampling.model_validate({**settings, **other, **options_by_field})
    except ValidationError as error:
        faults += [
            f"--{'-'.join(str(fault['loc'][0]).split('_'))}: {fault['msg']} (got {fault['input']!r})"
            for fault in error.errors()
        ]
        raise ConfigError(*faults) from error
    if faults:
        raise ConfigError(*faults)
    return sampling
