"""The definition of an evaluation of one model on one benchmark, fixed before the first sample. Imports no torch."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import Field

from trainers.benchmarks.known_benchmarks import usual
from trainers.benchmarks.problems import ProblemSet
from trainers.benchmarks.sampler import device, has_chat_template
from trainers.benchmarks.samples import SAMPLES_FILE
from trainers.config import Frozen
from trainers.errors import ConfigError
from trainers.process.durable import write_whole
from trainers.process.environment import versions

JOB_FILE: Final = "job.json"
_LIBRARIES: Final = ("torch", "transformers", "tokenizers", "math-verify")


class BenchmarkSampling(Frozen):
    """The settings by which completions are sampled and judged."""

    samples: int = Field(ge=1, description="Completions of each problem.")
    temperature: float = Field(gt=0, le=5)
    top_p: float = Field(gt=0, le=1)
    max_tokens: int = Field(ge=1, description="Longest completion, its end token included.")
    prompt_suffix: str = Field(description="Text after every problem.")
    chat: bool = Field(description="True if prompts go through the tokenizer's chat template.")
    dtype: Literal["float32", "bfloat16"] = Field(description="Type of the model's weights while sampling.")
    reward: str = Field(description="Judges completions: a name of trainers.rewards.")
    seed: int = Field(ge=0, lt=2**32)


class Job(Frozen):
    """Everything that determines the samples and the result."""

    benchmark: str
    problems: int
    problems_origin: str
    problems_sha256: str
    model_sha256: str
    sampling: BenchmarkSampling
    engine: Literal["transformers", "vllm"] = Field(default="transformers", description="The sampling engine.")
    device: str
    versions: Mapping[str, str]


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
        chat: true if prompts go through the chat template of a tokenizer that has one; None: as the benchmark says.
    """
    benchmark = usual(name)
    settings = {field: value for field, value in benchmark._asdict().items() if field in BenchmarkSampling.model_fields}
    wanted = benchmark.chat if chat is None else chat
    dtype = "bfloat16" if device() == "cuda" else "float32"
    return settings | {"chat": wanted and has_chat_template(model), "dtype": dtype}


def keep_job(folder: Path, job: Job) -> None:
    """Write the job of a folder's samples, or check that the samples already there are of the same job.

    A folder without samples, as an evaluation that was refused leaves it, takes any job.

    Raises: ConfigError, naming each difference.
    """
    path, now = folder / JOB_FILE, job.model_dump(mode="json")
    samples = folder / SAMPLES_FILE
    if not samples.exists() or not samples.stat().st_size:
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps(now, indent=2) + "\n")
        return
    try:
        stored: Any = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read ({error}); remove {folder}, or name another folder") from error
    if differing := list(_differences(stored, now)):
        raise ConfigError(
            *(f"{path}: {name} was {before!r}, now {after!r}" for name, before, after in differing),
            f"{folder} holds samples of another evaluation; name another folder, or ask for the same",
        )


def _differences(stored: Any, now: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield the name of each field that differs, with both values."""
    for name, value in now.items():
        before = stored.get(name) if isinstance(stored, Mapping) else None
        if isinstance(value, Mapping):
            yield from _differences(before, value, f"{prefix}{name}.")
        elif before != value:
            yield prefix + name, before, value
