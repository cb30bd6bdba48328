"""Turns the words of the command line into evaluations, or into one error that names everything wrong."""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from trainers.benchmarks.job import BenchmarkSampling, Job
from trainers.benchmarks.known_benchmarks import usual
from trainers.benchmarks.problems import ProblemSet, read_problems
from trainers.benchmarks.run import BenchmarkEvaluation
from trainers.benchmarks.sampler import device, has_chat_template
from trainers.errors import ConfigError, Faults
from trainers.policy.model_folder import model_digest
from trainers.process.environment import versions
from trainers.rewards import REWARDS

_LIBRARIES: Final = ("torch", "transformers", "tokenizers", "math-verify")


def requested(options: argparse.Namespace) -> tuple[int, list[BenchmarkEvaluation]]:
    """Return the batch size and the evaluations that the command line asks for.

    Raises: ConfigError, with every reason why they cannot be made.
    """
    names = list(dict.fromkeys(str(options.benchmark).split(",")))
    faults, digest = Faults(), ""
    problems, samplings = dict[str, ProblemSet](), dict[str, BenchmarkSampling]()
    with faults.noted():
        digest = model_digest(options.model)
    with faults.noted():
        if not options.batch.isdecimal() or int(options.batch) < 1:
            raise ConfigError(f"--batch: expected a whole number from 1 (got {options.batch!r})")
    for name in names:
        with faults.noted():
            problems[name] = read_problems(name, options.cache)
    for name in names:
        with faults.noted():
            samplings[name] = _sampling(name, options)
    faults.raise_all()
    jobs = {name: job_of(name, problems[name], digest, samplings[name]) for name in names}
    evaluations = [BenchmarkEvaluation(jobs[name], problems[name].problems, options.output / name) for name in names]
    return int(options.batch), evaluations


def job_of(
    name: str, problems: ProblemSet, model_sha256: str, sampling: BenchmarkSampling, vllm: str | None = None
) -> Job:
    """Return the job of evaluating a model here and now.

    Args:
        vllm: version of vLLM, if it samples; None: Transformers does.
    """
    engine = {} if vllm is None else {"vllm": vllm}
    return Job(
        benchmark=name,
        problems=len(problems.problems),
        problems_origin=problems.origin,
        problems_sha256=problems.sha256,
        model_sha256=model_sha256,
        sampling=sampling,
        engine="transformers" if vllm is None else "vllm",
        device=device(),
        versions=versions(_LIBRARIES) | engine,
    )


def usual_sampling(name: str, model: Path, *, chat: bool | None = None) -> Mapping[str, Any]:
    """Return the settings with which a benchmark is sampled from a model on this machine, all but the seed.

    Args:
        chat: whether prompts go through the chat template of a tokenizer that has one; None: as the benchmark says.
    """
    benchmark = usual(name)
    settings = {field: value for field, value in benchmark._asdict().items() if field in BenchmarkSampling.model_fields}
    wanted = benchmark.chat if chat is None else chat
    dtype = "bfloat16" if device() == "cuda" else "float32"
    return settings | {"chat": wanted and has_chat_template(model), "dtype": dtype}


def _sampling(name: str, options: argparse.Namespace) -> BenchmarkSampling:
    """Return the benchmark's usual sampling, changed as the command line says."""
    options_by_field = {
        field: value for field in BenchmarkSampling.model_fields if (value := getattr(options, field, None)) is not None
    }
    faults = list[str]()
    if options.prompt == "chat" and not has_chat_template(options.model):
        faults.append(f"--prompt chat: the tokenizer in {options.model} has no chat template; use plain")
    if options.reward is not None and options.reward not in REWARDS.names():
        faults.append(f"--reward: there is no {options.reward!r}; known are {', '.join(REWARDS.names())}")
    settings = usual_sampling(name, options.model, chat={"chat": True, "plain": False}.get(options.prompt))
    try:
        sampling = BenchmarkSampling.model_validate({**settings, **options_by_field})
    except ValidationError as error:
        faults += [
            f"--{'-'.join(str(fault['loc'][0]).split('_'))}: {fault['msg']} (got {fault['input']!r})"
            for fault in error.errors()
        ]
        raise ConfigError(*faults) from error
    if faults:
        raise ConfigError(*faults)
    return sampling
