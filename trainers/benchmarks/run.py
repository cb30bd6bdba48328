"""Evaluates a model on benchmarks, and resumes where an earlier process ended, for whatever reason.

Every batch is seeded by the place where it begins, so samples do not depend on interruptions. Imports no torch until a
model is needed.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from trainers.benchmarks.job import Job, keep_job
from trainers.benchmarks.problems import BenchmarkProblem
from trainers.benchmarks.result import RESULT_FILE, result, summary
from trainers.benchmarks.sampler import ModelSampler
from trainers.benchmarks.samples import SAMPLES_FILE, BenchmarkSample, Place, SampleWriter, read_samples
from trainers.errors import ConfigError, StoppedError
from trainers.process.durable import write_whole
from trainers.process.locks import locked
from trainers.process.progress import bar
from trainers.rewards import make_reward
from trainers.tasks.base import Problem

T = TypeVar("T")

_LOCK: Final = ".lock"


class BenchmarkEvaluation(NamedTuple):
    """A job, its problems, and the folder of its samples and result."""

    job: Job
    problems: Sequence[BenchmarkProblem]
    folder: Path

    @property
    def order(self) -> list[Place]:
        """List the places of all samples, in the order in which they are made."""
        return [Place(problem.id, k) for problem in self.problems for k in range(self.job.sampling.samples)]


def run(
    evaluations: Sequence[BenchmarkEvaluation],
    load: Callable[[], ModelSampler],
    batch: int,
    stopping: Callable[[], bool],
) -> Iterator[str]:
    """Make the samples that are missing and the results; yield each result as a line for people.

    Args:
        load: returns the model; not called if no sample is missing.
        batch: number of completions sampled at a time.
    Raises: ConfigError, if a folder holds something else or is in use, or prompts do not fit; StoppedError, once
        `stopping()` is true: what is sampled so far is kept.
    """
    with ExitStack() as stack:
        writers = all_of(partial(_opened, evaluation, stack) for evaluation in evaluations)
        unfinished = [e for e, writer in zip(evaluations, writers, strict=True) if writer.done < len(e.order)]
        model = load() if unfinished else None
        prompts = dict(all_of(partial(_prompts, e, model) for e in unfinished)) if model else {}
        for evaluation, writer in zip(evaluations, writers, strict=True):
            if model and evaluation in unfinished:
                _sample(evaluation, model, prompts[evaluation.job.benchmark], batch, writer, stopping)
            yield _finish(evaluation)


def all_of(calls: Iterable[Callable[[], T]]) -> list[T]:
    """Return the results of all calls.

    Raises: ConfigError, with the problems of all calls that raised one, each once.
    """
    results, problems = list[T](), dict[str, None]()
    for call in calls:
        try:
            results.append(call())
        except ConfigError as error:
            problems.update(dict.fromkeys(error.problems))
    if problems:
        raise ConfigError(*problems)
    return results


def _opened(evaluation: BenchmarkEvaluation, stack: ExitStack) -> SampleWriter:
    folder = evaluation.folder

    def refuse() -> None:
        raise ConfigError(f"--output: another process is writing to {folder}; wait for it, or name another folder")

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"--output: {folder} cannot be made: {error.strerror}") from error
    stack.enter_context(locked(folder / _LOCK, refuse))
    keep_job(folder, evaluation.job)
    return stack.enter_context(SampleWriter(folder, evaluation.order))


def _prompts(evaluation: BenchmarkEvaluation, model: ModelSampler) -> tuple[str, dict[str, list[int]]]:
    """Return the benchmark's name, and the token ids of its prompts by problem."""
    job = evaluation.job
    prompts = {problem.id: model.prompt_ids(problem.problem, job.sampling) for problem in evaluation.problems}
    longest, context = max(map(len, prompts.values())), model.context
    if context is not None and longest + job.sampling.max_tokens > context:
        raise ConfigError(
            f"--max-tokens {job.sampling.max_tokens}: with the longest prompt of {job.benchmark}, {longest} tokens, it "
            f"exceeds the model's context of {context}; use at most {context - longest}"
        )
    return job.benchmark, prompts


def _sample(
    evaluation: BenchmarkEvaluation,
    model: ModelSampler,
    prompts: Mapping[str, list[int]],
    batch: int,
    writer: SampleWriter,
    stopping: Callable[[], bool],
) -> None:
    job, order = evaluation.job, evaluation.order
    problems = {problem.id: Problem(problem.problem, problem.answer) for problem in evaluation.problems}
    reward = make_reward(job.sampling.reward)
    try:
        with bar(job.benchmark, len(order), writer.done) as shown:
            while writer.done < len(order):
                if stopping():
                    raise StoppedError("stopped between batches")
                places = order[writer.done : writer.done + batch]
                completions = model.sample([prompts[p.problem] for p in places], job.sampling, _seed(job, places[0]))
                judgements = reward.judge([problems[place.problem] for place in places], completions)
                end = writer.done + len(places)
                judged = zip(places, completions, judgements, strict=True)
                writer.write(
                    [BenchmarkSample.of(place, end, completion, judgement) for place, completion, judgement in judged]
                )
                shown.update(len(places))
    finally:
        reward.close()


def _finish(evaluation: BenchmarkEvaluation) -> str:
    content = result(evaluation.job, read_samples(evaluation.folder / SAMPLES_FILE))
    write_whole(evaluation.folder / RESULT_FILE, json.dumps(content, indent=2, allow_nan=False) + "\n")
    return summary(evaluation.job.benchmark, content["scores"])


def _seed(job: Job, place: Place) -> int:
    name = f"{job.sampling.seed}/{job.benchmark}/{place.problem}/{place.sample}"
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4])
