"""The request that a measurement reads: `python -m trainers CONFIG.yaml --measure REQUEST.json`. Imports no torch."""

from pathlib import Path
from typing import Any, Self

from pydantic import Field, ValidationError, model_validator

from trainers.benchmarks.problems import faults_in
from trainers.config import CatalogName, Frozen
from trainers.errors import ConfigError


class BenchmarkRequest(Frozen):
    """A benchmark, and how it is sampled where that is not as usual; null is the benchmark's own."""

    name: CatalogName
    samples: int | None = Field(default=None, ge=1, description="Completions of each problem.")
    longest: int | None = Field(default=None, ge=1, description="Longest completion, tokens.")
    temperature: float | None = Field(default=None, gt=0, le=5)
    top_p: float | None = Field(default=None, gt=0, le=1)
    reward: CatalogName | None = Field(default=None, description="Judges completions.")

    @property
    def changes(self) -> dict[str, Any]:
        """The settings of `BenchmarkSampling` that are not as usual."""
        settings = self.model_dump(exclude={"name", "longest"}) | {"max_tokens": self.longest}
        return {name: value for name, value in settings.items() if value is not None}


class MeasureRequest(Frozen):
    """One model to be measured on benchmarks."""

    model: Path | None = Field(
        description="Folder step-N, best-N or model-N of a run; null: the model that the configuration starts from."
    )
    results: Path | None = Field(
        description="Folder that gets one folder a benchmark and is kept over attempts; null, for the initial model "
        "only: in the cache, where all that need the same share it."
    )
    benchmarks: tuple[BenchmarkRequest, ...] = Field(min_length=1, max_length=100)
    seed: int = Field(default=0, ge=0, lt=2**32)
    batch: int | None = Field(
        default=None,
        ge=1,
        description="Completions sampled at a time; null: 32, by vLLM 256. Others are other samples.",
    )

    @model_validator(mode="after")
    def _unambiguous(self) -> Self:
        reasons = list[str]()
        names = [benchmark.name for benchmark in self.benchmarks]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            reasons.append(f"benchmarks: {', '.join(twice)} is named more than once; ask for each once")
        if self.model is not None and self.results is None:
            reasons.append("results: only the initial model (model null) has its results in the cache; name a folder")
        if reasons:
            raise ValueError("; ".join(reasons))
        return self


def read_request(file: Path) -> MeasureRequest:
    """Read a request from a JSON file. Raises: ConfigError."""
    try:
        return MeasureRequest.model_validate_json(file.read_bytes())
    except OSError as error:
        raise ConfigError(f"--measure: {file} cannot be read: {error.strerror}") from error
    except ValidationError as error:
        raise ConfigError(f"--measure: {file}: {faults_in(error)}") from error
