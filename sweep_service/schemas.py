"""Answers of the REST API beyond plain records. The service makes them, the client reads them."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Generic, Literal, TypeVar, cast

from pydantic import BaseModel, ConfigDict, Field, model_validator

from sweep_service.sweep.benchmark_scores import BenchmarkScore
from sweep_service.sweep.budget import GpuHours
from sweep_service.sweep.cost import SweepCost
from sweep_service.sweep.records import (
    Checkpoint,
    Config,
    CostProbe,
    DesiredState,
    Evaluation,
    Event,
    Stage,
    SweepState,
    Trial,
    TrialState,
)
from sweep_service.sweep.spec import SweepSpec
from trainers.config import TrainingConfig

Item = TypeVar("Item")
ReportFormat = Literal["html", "json", "md", "csv", "png", "svg"]
"""Formats of a report: the page, the object, a summary, its trials as a table, and a picture in two formats."""
MEDIA_TYPES: Final[Mapping[ReportFormat, str]] = {
    "html": "text/html; charset=utf-8",
    "json": "application/json",
    "md": "text/markdown; charset=utf-8",
    "csv": "text/csv; charset=utf-8",
    "png": "image/png",
    "svg": "image/svg+xml",
}


class View(BaseModel):
    """Base of all answers. Immutable."""

    model_config = ConfigDict(frozen=True)


class Timed(BaseModel):
    """Base of answers that say each time twice: in seconds since the Unix epoch, and under `NAME_utc` as text."""

    @model_validator(mode="before")
    @classmethod
    def _write_times(cls, data: Any) -> Any:
        """Write every time that the answer has as text."""
        if not isinstance(data, Mapping):
            return data
        fields = cast("Mapping[str, Any]", data)
        texts = [name for name in cls.model_fields if name.endswith("_utc")]
        return {**fields, **{name: _rfc3339(fields.get(name.removesuffix("_utc"))) for name in texts}}


def _rfc3339(seconds: object) -> str | None:
    if not isinstance(seconds, int | float):
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


_DateTime = Annotated[str, Field(json_schema_extra={"format": "date-time"})]
TimeText = Annotated[_DateTime, Field(description="The time before, in RFC 3339 and UTC.")]
MaybeTimeText = Annotated[_DateTime | None, Field(description="The time before, in RFC 3339 and UTC.")]


class SweepSummary(Timed, View):
    """A row in the list of sweeps, and the head of a single one."""

    id: str
    name: str
    state: SweepState
    desired_state: DesiredState
    message: str | None
    labels: dict[str, str]
    created_at: float
    created_at_utc: TimeText
    started_at: float | None
    started_at_utc: MaybeTimeText
    ended_at: float | None
    ended_at_utc: MaybeTimeText
    spec_digest: str
    only_probes: bool
    """Whether the sweep ends with its cost probe, as `sweeps probe` asks, and none of its trials runs."""
    trials: dict[TrialState, int]
    """Number of trials in each state; states without trials are left out."""
    mlflow_url: str | None


class VerdictView(Timed, View):
    """The report's verdict on the best config."""

    outcome: str = Field(description="BETTER, TIED, WORSE, INSUFFICIENT or EXPLORATORY, as the report defines them.")
    sentence: str = Field(description="The verdict in words, with the difference and its interval where there is one.")
    config_id: str | None = Field(description="The config that was judged, if it was compared.")
    comparator_id: str | None = Field(description="The config that it was compared with.")
    difference: float | None = Field(description="Mean objective of the config minus that of the comparator.")
    low: float | None = Field(description="Lower end of the 95 % interval of the difference; null where there is none.")
    high: float | None
    num_seeds: int | None = Field(description="Confirm seeds that the difference is taken over.")
    interim: bool = Field(
        description="Whether the sweep was still running, so that the final report may say otherwise."
    )
    created_at: float = Field(description="When the report was built.")
    created_at_utc: TimeText


class Judged(View):
    """Base of what has a best config, which nobody names without the report's verdict."""

    verdict: VerdictView | None = Field(description="What the sweep's report says; null while there is no report.")
    no_verdict: str | None = Field(description="Why there is no verdict yet, or never will be; null if there is one.")

    @property
    def verdict_text(self) -> str:
        """The verdict in words, or why there is none."""
        if self.verdict is None:
            return self.no_verdict or ""
        return f"interim report: {self.verdict.sentence}" if self.verdict.interim else self.verdict.sentence


class SweepView(SweepSummary, Judged):
    """A sweep with its spec."""

    spec: SweepSpec
    gpu_hours: GpuHours | None
    """GPU hours that the sweep has used and reserved of its budget; None on CPUs."""


class CheckpointView(Timed, Checkpoint):
    """A checkpoint, with its time as text."""

    time_utc: TimeText


class TrialView(Timed, Trial):
    """A trial with its objective and its newest checkpoint."""

    started_at_utc: MaybeTimeText
    ended_at_utc: MaybeTimeText
    objective: float | None
    mlflow_url: str | None
    checkpoint: CheckpointView | None = None


class EventView(Timed, Event):
    """An event, with its time as text."""

    time_utc: TimeText


class ProbeView(Timed, CostProbe):
    """A cost probe, and what its measurements mean for the sweep in the request."""

    started_at_utc: TimeText
    ended_at_utc: MaybeTimeText
    cost: SweepCost | None


class EvaluationView(Timed, Evaluation):
    """An evaluation, with its times as text."""

    started_at_utc: MaybeTimeText
    ended_at_utc: MaybeTimeText


class BenchmarkScoreView(Timed, BenchmarkScore):
    """What a model scores on a benchmark, with the time as text."""

    time_utc: TimeText


class BenchmarkSample(View):
    """A completion of a problem of a benchmark, with its judgement."""

    evaluation_id: str
    prompt: str
    completion: str
    reward: float | None
    """Reward of the completion; None where the judge failed."""
    correct: bool


class ConfigView(Config):
    """A config with the mean of its objective over seeds."""

    tune_objective: float | None
    confirm_objective: float | None
    tune_trials: int
    confirm_trials: int


class ConfigCurve(View):
    """One metric of one config in one stage over its seeds, at every step that any seed recorded."""

    config_id: str
    stage: Stage
    key: str
    steps: list[int]
    mean: list[float | None]
    low: list[float | None]
    """Smallest value over the seeds."""
    high: list[float | None]
    n: list[int]
    """Number of seeds that have a value."""


class Best(Judged):
    """The best config so far, and the result that makes it the best."""

    config_id: str
    params: dict[str, Any]
    stage: Stage
    """CONFIRM once a config that tuning chose has a confirm result."""
    metric: str
    objective: float
    """Mean objective over the stage's seeds."""
    equal: int
    """Number of configs with exactly this objective, this one included; if it is `configs`, none is the best."""
    configs: int
    """Number of configs with an objective in this stage, baselines included."""
    training: dict[str, Any]
    """The complete `TrainingConfig`, its seed left out: `python -m trainers` takes it."""


class ComparedSweep(View):
    """One of the sweeps that are compared."""

    id: str
    name: str
    state: SweepState
    spec_digest: str
    objective: str
    configs: int
    only_here: int
    """Number of configs that are not among the shared ones."""


class ConfigValues(View):
    """A config's objective in one sweep, over all its seeds."""

    n: int
    mean: float | None
    sd: float | None


class ConfigDifference(View):
    """A config's objective in another sweep, minus the one in the first."""

    sweep_id: str
    paired: bool
    """Whether the values were paired by seed; otherwise the two means were compared."""
    seeds: int
    """Number of pairs, or the smaller number of seeds."""
    difference: float | None = None
    low: float | None = None
    """95 % interval that holds for all comparisons at once; None below 3 seeds, and where nothing varies."""
    high: float | None = None
    repeated: int = 0
    """Number of common seeds, if all of them gave exactly the same value; else 0."""


class SharedConfig(View):
    """A config that the first sweep and another one have tried."""

    config_id: str
    params: dict[str, Any]
    """Its parameters, and other settings in which the shared configs differ."""
    values: list[ConfigValues]
    """Values in each sweep, in the order of the sweeps."""
    differences: list[ConfigDifference]
    """Differences of each sweep after the first, in their order."""


class SweepsComparison(View):
    """Sweeps beside each other, joined by config."""

    sweeps: list[ComparedSweep]
    shared: list[SharedConfig]
    notes: list[str]
    """Cautions about the differences."""
    method: list[str]


class Page(View, Generic[Item]):
    """Part of a list. A null `next_page_token` is the only sign of the end."""

    items: list[Item]
    next_page_token: str | None = None
    page_size: int = Field(description="The size that was used; a larger one that was asked for is cut.")


class Building(View):
    """The report does not exist yet; ask again after the seconds in `Retry-After`."""

    detail: str


class ProblemError(View):
    """One thing that is wrong with a request: where, and what."""

    pointer: str | None = Field(default=None, description="JSON pointer into the request's body (RFC 6901).")
    parameter: str | None = Field(default=None, description="Name of the query parameter or header.")
    detail: str


class Problem(View):
    """The reason why a request was refused or failed (RFC 9457, application/problem+json)."""

    type: str = "about:blank"
    title: str = Field(description="The status in words.")
    status: int
    code: str = Field(description="The reason as a word for programs, such as INVALID_SPEC. New ones may be added.")
    detail: str
    errors: list[ProblemError] = Field(
        default=[],
        description="Everything that is wrong, at once; of very many mistakes the last one says how many more.",
    )


def sweep_schema() -> dict[str, Any]:
    """Return the JSON Schema of a sweep's spec, the training configuration included, for editors and forms."""
    schema = SweepSpec.model_json_schema()
    training = TrainingConfig.model_json_schema()
    definitions = {**schema.pop("$defs", {}), **training.pop("$defs", {})}
    schema["properties"]["training"] = training
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "$defs": definitions}
