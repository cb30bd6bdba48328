"""Measures one model on benchmarks under one loaded copy of it, with a record like a training run's.

The samples are those of `python -m trainers.benchmarks` on the exported model.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from trainers.benchmarks.job import BenchmarkSampling, Job, job_of, usual_sampling
from trainers.benchmarks.measure_request import BenchmarkRequest, MeasureRequest
from trainers.benchmarks.problems import read_problems
from trainers.benchmarks.run import BenchmarkEvaluation, CompletionSampler, Prepared, prepare, run
from trainers.benchmarks.sampler import ModelReader, ModelSampler
from trainers.benchmarks.samples import SAMPLES_FILE, read_samples
from trainers.benchmarks.vllm_sampler import VLLMSampler
from trainers.config import TinyPolicy, TrainingConfig, VLLMEngine
from trainers.errors import CheckpointError, ConfigError, Faults, StoppedError
from trainers.export import export
from trainers.policy.checkpoints import UNFINISHED
from trainers.policy.load_policy import pretrained_folder
from trainers.policy.model_folder import model_digest
from trainers.policy.warm_start import warm_started
from trainers.process.environment import versions
from trainers.process.events import EventWriter
from trainers.process.progress import Announcer
from trainers.record.recorder import Outcome
from trainers.rewards import REWARDS
from trainers.tasks import make_task

SHARED: Final = "measurements"
"""Folder in the cache of the samples of initial models."""
_BATCH: Final = 32
_VLLM_BATCH: Final = 256
"""Number of completions that vLLM samples together, so that it waits less for the long ones; a kill loses as many."""
_SHOWN: Final = 4
_LIBRARIES: Final = ("torch", "transformers")


def measure_model(
    config: TrainingConfig,
    request: MeasureRequest,
    output: Path,
    events: EventWriter,
    *,
    cache: Path,
    stopping: Callable[[], bool] = lambda: False,
) -> Outcome:
    """Sample and judge what is missing of the benchmarks of `request`, and record each result.

    Whatever ended an earlier process, the same call goes on; on a CPU the samples are the same as without interruption.

    Args:
        output: folder of the record; a checkpoint's exported model lies below it meanwhile.
        cache: folder of models, data, and the shared samples of initial models.
        stopping: polled; once it is true the measurement ends and keeps what is sampled.
    Raises: ConfigError, with every reason why the model cannot be measured so.
    """
    events.write(
        "started",
        config=config.model_dump(mode="json"),
        versions=versions(_LIBRARIES),
        measure=request.model_dump(mode="json"),
        pid=os.getpid(),
    )
    scratch = output / UNFINISHED
    shutil.rmtree(scratch, ignore_errors=True)  # left by a process that was killed
    scratch.mkdir(parents=True)
    outcome: Outcome = "SUCCEEDED"
    try:
        _measure(config, request, scratch, events, cache, stopping)
    except StoppedError:
        outcome = "STOPPED"
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    events.write("finished", outcome=outcome)
    return outcome


def _measure(
    config: TrainingConfig,
    request: MeasureRequest,
    scratch: Path,
    events: EventWriter,
    cache: Path,
    stopping: Callable[[], bool],
) -> None:
    faults, folder, digest = Faults(), scratch / "model", ""
    engine = config.rollout.engine if isinstance(config.rollout.engine, VLLMEngine) else None
    batch, vllm = request.batch or (_VLLM_BATCH if engine else _BATCH), None
    if engine:
        from trainers.rollouts.vllm_engine import refuse_missing, vllm_version

        with faults.noted():
            refuse_missing(engine)
            vllm = vllm_version()
    with faults.noted():
        folder = _model_folder(config, request, folder, events, cache, stopping)
        digest = model_digest(folder)
    evaluations = list[BenchmarkEvaluation]()
    for benchmark in request.benchmarks:
        with faults.noted():
            evaluations.append(_evaluation(benchmark, request, batch, folder, digest, vllm, cache))
    if not digest:
        faults.raise_all()
    waiting = Announcer(events, "waiting for another process that measures the same", 1)
    announcers = dict[str, Announcer]()

    def wait(held: Path) -> None:  # for a process that samples for both, or is about to leave the folder
        if stopping():
            raise StoppedError(f"stopped while another process wrote to {held}")
        waiting.announce(0)

    def announce(name: str, done: int, total: int) -> None:
        announcers.setdefault(name, Announcer(events, name, total)).announce(done)

    with ExitStack() as stack:
        prepared = list[Prepared]()
        with faults.noted():
            prepared = prepare(evaluations, partial(ModelReader, folder), stack, wait)
        faults.raise_all()
        load = partial(_loaded, prepared, folder, engine, batch, stopping)
        for evaluation, content in run(prepared, load, batch, stopping, announce):
            name, shown = evaluation.job.benchmark, _shown(evaluation)
            events.write("benchmark", name=name, model_sha256=digest, result=content, shown=shown)


def _model_folder(
    config: TrainingConfig,
    request: MeasureRequest,
    exported: Path,
    events: EventWriter,
    cache: Path,
    stopping: Callable[[], bool],
) -> Path:
    """Return the model's folder; of a checkpoint, `exported` is made. Raises: ConfigError; StoppedError."""
    if request.model is not None:
        Announcer(events, "reading the checkpoint", 1).announce(0)
        try:
            export(request.model, exported)
        except CheckpointError as error:
            raise ConfigError(str(error)) from error
        return exported
    if not isinstance(config.model, TinyPolicy):
        return pretrained_folder(config.model, cache)
    task = make_task(config.task, cache)
    try:
        return warm_started(config.model, task, cache, events, stopping)
    finally:
        task.close()


def _loaded(
    evaluations: Sequence[Prepared], folder: Path, engine: VLLMEngine | None, batch: int, stopping: Callable[[], bool]
) -> CompletionSampler:
    """Load the model for all evaluations with missing samples."""
    if stopping():
        raise StoppedError("stopped before the model was loaded")
    dtype = evaluations[0].evaluation.job.sampling.dtype
    if engine is None:
        return ModelSampler(folder, dtype, stopping)
    longest = max(
        len(prompt) + one.evaluation.job.sampling.max_tokens for one in evaluations for prompt in one.prompts.values()
    )
    return VLLMSampler(folder, engine, dtype, longest, batch, stopping)


def _evaluation(
    benchmark: BenchmarkRequest,
    request: MeasureRequest,
    batch: int,
    model: Path,
    digest: str,
    vllm: str | None,
    cache: Path,
) -> BenchmarkEvaluation:
    problems = read_problems(benchmark.name, cache)
    if benchmark.reward is not None and benchmark.reward not in REWARDS.names():
        raise ConfigError(
            f"benchmarks.{benchmark.name}.reward: there is no {benchmark.reward!r}; known are "
            + ", ".join(REWARDS.names())
        )
    usual = usual_sampling(benchmark.name, model)
    sampling = BenchmarkSampling.model_validate({**usual, **benchmark.changes, "seed": request.seed})
    job = job_of(benchmark.name, problems, digest, sampling, vllm)
    folder = _shared_folder(job, batch, cache) if request.results is None else request.results / benchmark.name
    return BenchmarkEvaluation(job, problems.problems, folder)


def _shared_folder(job: Job, batch: int, cache: Path) -> Path:
    """Return the folder in the cache of this job's samples, named by a digest of everything that determines them."""
    key = {
        "job": job.model_dump(mode="json"),
        "batch": batch,
        "reward": REWARDS.code(job.sampling.reward),
        "version": version("sweep-service"),
    }
    digest = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()
    return cache / SHARED / f"{job.benchmark}-{digest[:32]}"


def _shown(evaluation: BenchmarkEvaluation) -> list[dict[str, Any]]:
    """Return a few samples for people, of problems that are spread over the benchmark."""
    suffix = evaluation.job.sampling.prompt_suffix
    prompts = {problem.id: problem.problem + suffix for problem in evaluation.problems}
    total = len(evaluation.order)
    places = {place * total // _SHOWN for place in range(_SHOWN)}
    samples = read_samples(evaluation.folder / SAMPLES_FILE)
    return [
        {
            "prompt": prompts[sample.problem],
            "completion": sample.completion,
            "reward": sample.reward,
            "correct": sample.correct,
        }
        for place, sample in enumerate(samples)
        if place in places
    ]
