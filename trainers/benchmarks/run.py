"""Evaluates a model on benchmarks, and resumes where an earlier process ended, for whatever reason.

Every completion has a seed from its place, and one that draws a batch together takes that of the batch's first: so
samples do not depend on interruptions. Imports no torch until a model is needed.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from trainers.benchmarks.job import BenchmarkSampling, Job, keep_job
from trainers.benchmarks.problems import BenchmarkProblem
from trainers.benchmarks.result import RESULT_FILE, result
from trainers.benchmarks.samples import SAMPLES_FILE, BenchmarkSample, Place, SampleWriter, read_samples
from trainers.errors import ConfigError, Faults, StoppedError
from trainers.process.durable import write_whole
from trainers.process.locks import locked
from trainers.process.progress import bar
from trainers.rewards import make_reward
from trainers.tasks.base import Completion, Problem

_LOCK: Final = ".lock"


class PromptReader(Protocol):
    """A model's tokenizer and context."""

    @property
    def context(self) -> int | None:
        """Largest number of tokens in a prompt and its completion together; None if the model does not say."""
        ...

    def prompt_ids(self, problem: str, sampling: BenchmarkSampling) -> list[int]:
        """Return the token ids of a problem's prompt."""
        ...


class CompletionSampler(Protocol):
    """A model that samples completions."""

    def sample(
        self, prompts: Sequence[Sequence[int]], sampling: BenchmarkSampling, seeds: Sequence[int]
    ) -> list[Completion]:
        """Sample one completion of each prompt from the prompt's own seed. Raises: StoppedError, when asked to."""
        ...


class BenchmarkEvaluation(NamedTuple):
    """A job, its problems, and the folder of its samples and result."""

    job: Job
    problems: Sequence[BenchmarkProblem]
    folder: Path

    @property
    def order(self) -> list[Place]:
        """List the places of all samples, in the order in which they are made."""
        return [Place(problem.id, k) for problem in self.problems for k in range(self.job.sampling.samples)]


class Prepared(NamedTuple):
    """An evaluation whose folder is held by this process."""

    evaluation: BenchmarkEvaluation
    writer: SampleWriter
    prompts: Mapping[str, list[int]]
    """Token ids of each problem's prompt, by the problem's id; none if all samples are there."""

    @property
    def unfinished(self) -> bool:
        """True if samples are missing."""
        return self.writer.done < len(self.evaluation.order)


class Finished(NamedTuple):
    """A finished evaluation, and the content of its `result.json`."""

    evaluation: BenchmarkEvaluation
    result: dict[str, Any]


def refuse_in_use(folder: Path) -> None:
    """Refuse to wait for the process that writes to this folder. Raises: ConfigError."""
    raise ConfigError(f"another process is writing to {folder}; wait for it, or name another folder")


def prepare(
    evaluations: Sequence[BenchmarkEvaluation],
    read: Callable[[], PromptReader],
    stack: ExitStack,
    while_waiting: Callable[[Path], None] = refuse_in_use,
) -> list[Prepared]:
    """Take hold of the folders of evaluations until `stack` is closed, and check what is in them and the prompts.

    Args:
        read: returns the model's reader; not called if no sample is missing.
        while_waiting: called with a folder a few times a second while another process holds it; what it raises ends
            the waiting.
    Raises: ConfigError, with every reason: a folder holds something else or is in use, or prompts do not fit.
    """
    faults, writers = Faults(), dict[Path, SampleWriter]()
    # in one order everywhere, so that no two processes that share several folders each hold what the other waits for
    for evaluation in sorted(evaluations, key=lambda evaluation: evaluation.folder):
        with faults.noted():
            writers[evaluation.folder] = _opened(evaluation, stack, while_waiting)
    unfinished = [e for e in evaluations if e.folder not in writers or writers[e.folder].done < len(e.order)]
    prompts = dict[Path, dict[str, list[int]]]()
    if unfinished:
        with faults.noted():
            reader = read()
            for evaluation in unfinished:
                with faults.noted():
                    prompts[evaluation.folder] = _prompts(evaluation, reader)
    faults.raise_all()
    return [Prepared(e, writers[e.folder], prompts.get(e.folder, {})) for e in evaluations]


def run(
    evaluations: Sequence[Prepared],
    load: Callable[[], CompletionSampler],
    batch: int,
    stopping: Callable[[], bool],
    progress: Callable[[str, int, int], None] = lambda *_: None,
) -> Iterator[Finished]:
    """Make the samples that are missing and the results; yield each evaluation as soon as it has its result.

    Args:
        load: returns the model; not called if no sample is missing.
        batch: number of completions sampled at a time.
        progress: called with a benchmark's name and how many of its samples are there, of how many.
    Raises: StoppedError, once `stopping()` is true: what is sampled so far is kept.
    """
    model = load() if any(prepared.unfinished for prepared in evaluations) else None
    for prepared in evaluations:
        if model and prepared.unfinished:
            _sample(prepared, model, batch, stopping, progress)
        evaluation = prepared.evaluation
        alike = {problem.id: problem.group for problem in evaluation.problems if problem.group}
        content = result(evaluation.job, read_samples(evaluation.folder / SAMPLES_FILE), alike)
        write_whole(evaluation.folder / RESULT_FILE, json.dumps(content, indent=2, allow_nan=False) + "\n")
        yield Finished(evaluation, content)


def _opened(evaluation: BenchmarkEvaluation, stack: ExitStack, while_waiting: Callable[[Path], None]) -> SampleWriter:
    folder = evaluation.folder
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{folder} cannot be made: {error.strerror}") from error
    stack.enter_context(locked(folder / _LOCK, partial(while_waiting, folder)))
    keep_job(folder, evaluation.job)
    return stack.enter_context(SampleWriter(folder, evaluation.order))


def _prompts(evaluation: BenchmarkEvaluation, reader: PromptReader) -> dict[str, list[int]]:
    """Return the token ids of the evaluation's prompts by problem. Raises: ConfigError, if they do not fit."""
    job = evaluation.job
    prompts = {problem.id: reader.prompt_ids(problem.problem, job.sampling) for problem in evaluation.problems}
    longest, context = max(map(len, prompts.values())), reader.context
    if context is not None and longest + job.sampling.max_tokens > context:
        raise ConfigError(
            f"{job.benchmark}: a completion of {job.sampling.max_tokens} tokens after its longest prompt, {longest} "
            f"tokens, exceeds the model's context of {context}; use at most {context - longest}"
        )
    return prompts


def _sample(
    prepared: Prepared,
    model: CompletionSampler,
    batch: int,
    stopping: Callable[[], bool],
    progress: Callable[[str, int, int], None],
) -> None:
    (job, *_), order, writer = prepared.evaluation, prepared.evaluation.order, prepared.writer
    problems = {problem.id: Problem(problem.problem, problem.answer) for problem in prepared.evaluation.problems}
    reward = make_reward(job.sampling.reward)
    try:
        if reward.columns:
            raise ConfigError(
                f"the reward {job.sampling.reward} reads {', '.join(reward.columns)} of each row, and problems of "
                "benchmarks have an answer alone; name another reward"
            )
        with bar(job.benchmark, len(order), writer.done) as shown:
            progress(job.benchmark, writer.done, len(order))
            while writer.done < len(order):
                if stopping():
                    raise StoppedError("stopped between batches")
                places = order[writer.done : writer.done + batch]
                names = (f"{job.sampling.seed}/{job.benchmark}/{place.problem}/{place.sample}" for place in places)
                seeds = [int.from_bytes(hashlib.sha256(name.encode()).digest()[:4]) for name in names]
                completions = model.sample([prepared.prompts[p.problem] for p in places], job.sampling, seeds)
                judgements = reward.judge([problems[place.problem] for place in places], completions)
                end = writer.done + len(places)
                judged = zip(places, completions, judgements, strict=True)
                writer.write(
                    [BenchmarkSample.of(place, end, completion, judgement) for place, completion, judgement in judged]
                )
                shown.update(len(places))
                progress(job.benchmark, writer.done, len(order))
    finally:
        reward.close()
