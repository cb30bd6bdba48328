"""Answers of the REST API beyond plain records. The service makes them, the client reads them."""

import operator
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Generic, Literal, TypeVar, cast

from pydantic import BaseModel, ConfigDict, Field, model_validator

from sweep_service.sweep.added_benchmarks import AddedBenchmarks
from sweep_service.sweep.benchmark_scores import BenchmarkScore
from sweep_service.sweep.budget import GpuHours
from sweep_service.sweep.cost import SweepCost
from sweep_service.sweep.deletion import DeletionState
from sweep_service.sweep.endings import Ending
from sweep_service.sweep.labels import behind_text, equals_text
from sweep_service.sweep.objective import Leader
from sweep_service.sweep.records import (
    Checkpoint,
    Config,
    CostProbe,
    DesiredState,
    Evaluation,
    Event,
    Stage,
    Sweep,
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
    deletion: DeletionState | None = None
    """ASKED while a worker deletes or archives the sweep; ARCHIVED if its curves and files are gone."""
    only_probes: bool
    """True if the sweep ends with its cost probe, as `sweeps probe` asks, and none of its trials runs."""
    trials: dict[TrialState, int]
    """Number of trials in each state; states without trials are left out."""
    trials_to_come: int
    """Number of trials yet to be chosen, at most: proposals, and the confirm stage. 0 once the sweep trains no more."""
    mlflow_url: str | None


class Freed(View):
    """Disk, rows and runs that a deletion frees, or has yet to free."""

    bytes: int | None
    """Bytes on disk below the sweep's folder; null if the API's machine does not see the storage."""
    files: int | None
    rows: int
    """Rows of the database; of a sweep that is being archived those that go with that."""
    rows_if_archived: int = 0
    """Rows of these that go if the report is kept."""
    mlflow_runs: int
    """Runs of the sweep and its trials in MLflow; its configs may have more, which go, too."""


class DeletionView(Timed, View):
    """The deletion of a sweep: what was asked for and how far it is; without a wish, what it would free."""

    sweep_id: str
    name: str
    state: DeletionState | None
    """Null: nobody has asked for it. ASKED: a worker carries it out."""
    keep_report: bool = False
    """True if the sweep is archived: its spec, its trials and its report stay."""
    asked_at: float | None = None
    asked_at_utc: MaybeTimeText = None
    by: str | None = None
    """Fingerprint of the token with which it was asked for."""
    message: str | None = None
    """The present hindrance."""
    mlflow_pending: bool = False
    """True if MLflow, which was away, may still show runs; they go as soon as it answers."""
    blocked: str | None = None
    """Why the sweep cannot be deleted now, and what to do."""
    frees: Freed | None = None
    """Null once nothing is left to free."""


class VerdictView(Timed, View):
    """The report's verdict on the best config."""

    outcome: str = Field(
        description="BETTER, WORSE or EQUIVALENT of averages over all runs; AHEAD, BEHIND or ALIKE IN SOUND RUNS of "
        "runs that are not ruined, or ON THESE PROBLEMS where others are not counted; UNDECIDED, INSUFFICIENT or "
        "EXPLORATORY."
    )
    sentence: str = Field(description="The verdict in words, with the difference and its interval where there is one.")
    config_id: str | None = Field(description="The config that was judged, if it was compared.")
    comparator_id: str | None = Field(description="The config that it was compared with.")
    difference: float | None = Field(description="Mean objective of the config minus that of the comparator.")
    low: float | None = Field(description="Lower end of the 95 % interval of the difference; null where there is none.")
    high: float | None
    num_seeds: int | None = Field(description="Confirm seeds that the difference is taken over.")
    interim: bool = Field(
        description="True if the sweep was still running, so that the final report may say otherwise."
    )
    outdated: bool = Field(
        default=False,
        description="True if the report was final and the sweep has gone on since, such as by an extension. A new one "
        "comes at its end.",
    )
    created_at: float = Field(description="When the report was built.")
    created_at_utc: TimeText


class Judged(View):
    """Base of what has a best config, which nobody names without the report's verdict."""

    verdict: VerdictView | None = Field(description="Verdict of the sweep's report; null while there is no report.")
    no_verdict: str | None = Field(description="Why there is no verdict yet, or never will be; null if there is one.")

    @property
    def is_final(self) -> bool:
        """True if it is the verdict of a report that stands for good, unless the sweep is given more."""
        return self.verdict is not None and not self.verdict.interim and not self.verdict.outdated

    @property
    def verdict_text(self) -> str:
        """The verdict in words, or why there is none."""
        if self.verdict is None:
            return self.no_verdict or ""
        if self.verdict.outdated:
            return f"before the sweep went on: {self.verdict.sentence}"
        return f"interim report: {self.verdict.sentence}" if self.verdict.interim else self.verdict.sentence


class SweepView(SweepSummary, Judged):
    """A sweep with its spec."""

    spec: SweepSpec
    added_benchmarks: tuple[AddedBenchmarks, ...] = ()
    """Benchmarks added after the sweep had SUCCEEDED, with the trials whose last models are measured."""
    gpu_hours: GpuHours | None
    """GPU hours that the sweep has used and reserved of its budget; None on CPUs."""


class SubmittedView(SweepView):
    """A sweep that was just accepted."""

    unchecked: list[str] = Field(
        default=[],
        exclude_if=operator.not_,
        description="Reasons why data could not be read before; trials read it. Missing: they were.",
    )
    warnings: list[str] = Field(
        default=[], exclude_if=operator.not_, description="Warnings of its plan. Missing: there are none."
    )


class CheckpointView(Timed, Checkpoint):
    """A checkpoint, with its time as text."""

    time_utc: TimeText


class TrialView(Timed, Trial):
    """A trial with its objective and its newest checkpoint."""

    started_at_utc: MaybeTimeText
    ended_at_utc: MaybeTimeText
    ending: Ending | None = None
    """Why it is over, by a name of the table of endings (docs/states.md); null while it is not."""
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
    ending: Ending | None = None
    """Why it is over, as of a trial."""


class BenchmarkScoreView(Timed, BenchmarkScore):
    """The scores of a model on a benchmark, with the time as text."""

    time_utc: TimeText


class BenchmarkSample(View):
    """A completion of a problem of a benchmark, with its judgement."""

    evaluation_id: str
    prompt: str
    completion: str
    reward: float | None
    """Reward of the completion; None where the judge failed."""
    correct: bool


class LogPart(View):
    """A part of a log, whose content is the answer itself; `LOG_HEADERS` has the rest."""

    content: bytes
    attempt: int | None = Field(default=None, description="Number of the attempt that wrote it; none for a runner's.")
    attempts: int | None = Field(default=None, description="Number of attempts so far; none for a runner's log.")
    offset: int = Field(description="Number of bytes of the log before this part.")
    next_offset: int = Field(description="The `offset` that asks for the next part.")
    size: int = Field(description="Number of bytes that the log has now.")
    ended: bool = Field(description="True if the attempt, or the sweep, has ended, so that the log does not grow.")
    over: bool = Field(description="True if the trial, or the sweep, is over, so that no further attempt begins.")

    @property
    def is_last(self) -> bool:
        """True if nothing follows in this log."""
        return self.ended and self.next_offset >= self.size


LOG_HEADERS: Final[Mapping[str, str]] = {
    name: f"Log-{name.replace('_', '-').title()}" for name in LogPart.model_fields if name != "content"
}
"""Name of the header that tells each field of a `LogPart`, such as `Log-Next-Offset`."""


class ConfigView(Config):
    """A config with the mean of its objective over seeds."""

    label: str = ""
    """All that tells the config from the sweep's others, such as `beta1=0 epsilon=0.2 beta2=0`, beyond its params."""
    tune_objective: float | None
    confirm_objective: float | None
    tune_trials: int
    confirm_trials: int


class MetricKey(View):
    """A metric that trials of a sweep have recorded, with what it means."""

    key: str
    unit: str | None = None
    """Null, like the meaning, for a metric that this version does not know."""
    meaning: str | None = None


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
    label: str = ""
    """All that tells the config from the sweep's others, in words; other configs may have the same params."""
    stage: Stage
    """CONFIRM once a config that tuning chose has a confirm result."""
    metric: str
    objective: float
    """Mean objective over the stage's seeds."""
    equal: int
    """Number of configs with exactly this objective, this one included; if it is `configs`, none is the best."""
    configs: int
    """Number of configs with an objective in this stage, baselines included."""
    baseline_objective: float | None = None
    """Mean objective of the baseline over the stage's seeds; null while it has none."""
    diverged: bool = False
    """True if every trial with a result diverged, so that none of the configs is the best."""
    training: dict[str, Any]
    """The complete `TrainingConfig`, its seed left out: `python -m trainers` takes it. Of a trainer of one's own what
    its file has, with the stage's first seed."""
    of_program: bool = False
    """True if a trainer of one's own takes `training`, as a file of JSON."""

    @classmethod
    def of(cls, leader: Leader, sweep: Sweep, label: str, judged: Judged) -> "Best":
        """Return the config that leads a sweep, under this name and with this verdict."""
        config, seeds = leader.config, sweep.spec.seeds
        first_seed = seeds.confirm.seeds[0] if leader.stage is Stage.CONFIRM and seeds.confirm else seeds.tune[0]
        return cls(
            config_id=config.id,
            params=config.params,
            label=label,
            stage=leader.stage,
            metric=sweep.spec.objective.metric,
            objective=leader.objective,
            equal=leader.equal,
            configs=leader.configs,
            baseline_objective=leader.baseline,
            diverged=leader.diverged,
            **dict(judged),
            training=config.settings | ({"seed": first_seed} if config.is_own else {}),
            of_program=config.is_own,
        )

    @property
    def all_equal(self) -> bool:
        """True if all configs have this objective, or every trial diverged, so that none leads."""
        return self.diverged or 1 < self.configs == self.equal

    @property
    def remarks(self) -> list[str]:
        """Sentences about other configs with exactly this objective, and about a baseline that has more."""
        equals = equals_text(self.equal, self.configs, diverged=self.diverged)
        behind = behind_text(self.objective, self.baseline_objective)
        return [text for text in (equals, behind) if text]


class Page(View, Generic[Item]):
    """Part of a list. A null `next_page_token` is the only sign of the end."""

    items: list[Item]
    next_page_token: str | None = None
    page_size: int = Field(description="The size that was used; a larger one that was asked for is cut.")


class Building(View):
    """The report does not exist yet; ask again after the seconds in `Retry-After`."""

    detail: str


class StoredReportView(Timed, View):
    """A final report that is kept."""

    digest: str = Field(description="Names it: `…/report?digest=DIGEST` returns it.")
    created_at: float
    created_at_utc: TimeText
    report_version: int | None = Field(
        description="Version of the code that built it: it rises when the same rows give another."
    )
    superseded_at: float | None = Field(description="When a newer one took its place; null for the one that stands.")
    superseded_at_utc: MaybeTimeText


class ReportsView(View):
    """The final reports of a sweep."""

    building: bool = Field(description="True if somebody has asked for a new one that is not there yet.")
    failure: str | None = Field(description="Why the last try to build one failed.")
    reports: list[StoredReportView] = Field(description="The one that stands, then superseded ones, newest first.")


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
