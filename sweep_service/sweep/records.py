"""The words of the service as frozen records: Sweep, Config, Trial, Attempt, Event, and their states.

Times are seconds since the Unix epoch. Ids sort by creation. The store hands out these records and nothing else.
"""

import os
import time
from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic.json_schema import SkipJsonSchema

from sweep_service.sweep.added_benchmarks import AddedBenchmarks
from sweep_service.sweep.endings import AttemptOutcome, Ending, TrialState
from sweep_service.sweep.own_trainer import is_own, settings_in_file
from sweep_service.sweep.spec import SweepSpec
from trainers.cost.cost_figures import CostFigures

_CROCKFORD = "0123456789abcdefghjkmnpqrstvwxyz"


def new_id(prefix: str) -> str:
    """Return a new id such as `swp_01jd…`: 48 bits of milliseconds, then 80 random bits, in base 32."""
    number = (int(time.time() * 1000) << 80) | int.from_bytes(os.urandom(10))
    return f"{prefix}_" + "".join(_CROCKFORD[(number >> shift) & 31] for shift in range(125, -1, -5))


class SweepState(StrEnum):
    """State of a sweep."""  # `state_table.SWEEP_LIFE` explains each state

    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    FINALIZING = "FINALIZING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"

    @property
    def is_over(self) -> bool:
        """True if a sweep leaves this state only if somebody adds benchmarks."""
        return self in (SweepState.SUCCEEDED, SweepState.FAILED, SweepState.CANCELLED)

    @property
    def needs_runner(self) -> bool:
        """True if a worker claims a sweep in this state to run its trials."""
        return self in (SweepState.QUEUED, SweepState.RUNNING)

    @property
    def needs_final_report(self) -> bool:
        """True if a worker claims a sweep in this state to build its report, with which the sweep ends."""
        return self is SweepState.FINALIZING

    @property
    def trials_may_change(self) -> bool:
        """True if trials may still begin or go on, so that a report is an interim one."""
        return self in (SweepState.QUEUED, SweepState.RUNNING, SweepState.PAUSED)

    @property
    def has_interim_report(self) -> bool:
        """True if people may ask for an interim report: trials have begun and may still change."""
        return self in (SweepState.RUNNING, SweepState.PAUSED)


class DesiredState(StrEnum):
    """The user's wish for a sweep; written before anything is signalled."""

    RUN = "RUN"
    PAUSE = "PAUSE"
    CANCEL = "CANCEL"

    @property
    def is_to_end(self) -> bool:
        """True if the user wants the sweep to end for good, so that its trials need nothing any more."""
        return self is DesiredState.CANCEL

    def shown(self, state: SweepState) -> str:
        """Return the word shown for a sweep in this state: PAUSING and CANCELLING while the wish is carried out."""
        if self is DesiredState.CANCEL and not state.is_over:
            return "CANCELLING"
        if self is DesiredState.PAUSE and state.needs_runner:
            return "PAUSING"
        return state.value


class Stage(StrEnum):
    """Purpose of a trial."""

    TUNE = "tune"  # selects the best configs
    CONFIRM = "confirm"  # measures the selected ones on seeds that selection never saw


class Role(StrEnum):
    """Why a config is in a sweep; one config may have several roles."""

    SPACE = "space"  # a point of the search space
    BASELINE = "baseline"  # the spec's own base parameters with beta1 = beta2 = 0: PPO-clip's gradient
    DAPO = "dapo"  # clip-higher
    MATCHED = "matched"  # a chosen config with beta1 = beta2 = 0


class ProbeState(StrEnum):
    """State of a cost probe: RUNNING, or one of the outcomes of `AttemptOutcome`."""

    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"  # it has figures
    FAILED = "FAILED"  # the trainer said why, such as that memory ran out
    CRASHED = "CRASHED"  # its process or actor died: tried again
    LOST = "LOST"  # its runner went away: tried again
    PAUSED = "PAUSED"  # its sweep was paused: tried again
    CANCELLED = "CANCELLED"


class Record(BaseModel):
    """Base of all records: immutable."""

    model_config = ConfigDict(frozen=True)


class Sweep(Record):
    """A sweep and its life."""

    id: str
    name: str
    state: SweepState
    desired_state: DesiredState
    created_at: float
    started_at: float | None = None
    ended_at: float | None = None
    message: str | None = None
    epoch: int = 0
    generation: int = 0
    """Number of times that it was extended, or had trials tried again by hand."""
    spec: SweepSpec
    spec_digest: str
    added_benchmarks: tuple[AddedBenchmarks, ...] = ()
    """Benchmarks measured, or to be measured, after the end of its training."""
    mlflow_experiment_id: str | None = None
    mlflow_run_id: str | None = None

    @property
    def has_trained(self) -> bool:
        """True if its training ended before benchmarks were added, so that no trial ever begins again."""
        return bool(self.added_benchmarks)

    @property
    def benchmarks(self) -> tuple[str, ...]:
        """Names of all benchmarks on which models are measured: those of the spec, then those that were added."""
        parts = [*([self.spec.benchmarks] if self.spec.benchmarks else []), *self.added_benchmarks]
        return tuple(dict.fromkeys(name for part in parts for name in part.names))


class Judgement(Record):
    """The word of a sweep's `early_stopping`, or of a sign of health, on one config.

    It is dropped, with all its tune trials, or goes on.
    """

    config_id: str
    dropped: bool
    seed: int | None
    """Seed of the trial that was judged; None if the config was judged by its results on several seeds."""
    mark: int
    """Point of the judgement: of a trial its step, else the number of tune seeds, the first ones, that were compared.
    """
    value: float | None
    """The figure that was judged; None if there was no result."""
    bound: float | None
    """The figure against which `value` was held; each rule says which that is. None if there was nothing yet."""
    sign: str | None = None
    """The sign of its health by which a trial was judged; None if `early_stopping` judged."""
    rival: str | None = None
    """Id of the config that proves it worse, under a rule that proves something."""
    message: str = ""
    """The judgement in words, for people."""
    taken_back: bool = False
    """True if somebody has had the config go on after it was dropped; it is never dropped again."""


class Config(Record):
    """One point: training parameters without the seed, named by the hash of their canonical form."""

    id: str
    sweep_id: str
    number: int
    """Position within the sweep, from 0; baselines first."""
    roles: tuple[Role, ...]
    params: dict[str, Any]
    """Values, by dotted name, of the parameters in which this config may differ from the others."""
    training: dict[str, Any]
    """The complete `TrainingConfig` as JSON, its seed left out; of a trainer of one's own its `OwnConfig`."""
    dropped: SkipJsonSchema[Judgement | None] = Field(default=None, exclude=True)
    """The judgement by which `early_stopping` has dropped it; None while it has not."""

    @property
    def is_contender(self) -> bool:
        """True if it is a point of the space, and may be chosen; a baseline never is."""
        return Role.SPACE in self.roles and Role.BASELINE not in self.roles

    @property
    def is_own(self) -> bool:
        """True if a trainer of one's own trains it, so that nothing is known of what its settings mean."""
        return is_own(self.training)

    @property
    def settings(self) -> dict[str, Any]:
        """The settings as the trainer's file has them, without the seed."""
        return settings_in_file(self.training)

    @property
    def updates_per_rollout(self) -> int:
        """Optimizer updates made from one rollout; 1 where a trainer of one's own has no rollouts that we know of."""
        if self.is_own:
            return 1
        rollout = self.training["rollout"]
        return rollout["prompts_per_rollout"] // rollout["prompts_per_minibatch"]


class TrialWarning(Record):
    """Something that weakens what a trial shows: its trainer noticed it, or its curves show a sign of ill health."""

    code: str
    """The reason as a word, such as BETAS_NEARLY_INERT."""
    message: str
    evidence: dict[str, Any]
    """Figures behind the warning, by name."""
    step: int
    is_sign: bool = False
    """True if it is a sign that its curves show, and not its trainer's word."""


class Work(Record):
    """A trial or an evaluation, as a runner hands it out; it is tried again until it has an end."""

    id: str
    sweep_id: str
    config_id: str
    seed: int
    number: int
    """Order of hand-out within the sweep, from 0."""
    state: TrialState
    threads: int
    """Number of CPU threads of its process; fixed when the row is made, because results depend on it."""
    step: int = 0
    """Number of the last optimizer update recorded; for an evaluation, number of the benchmarks measured."""
    total_steps: int
    attempts: int = 0
    held_s: float = 0.0
    """Seconds for which its attempts have held their CPUs and GPUs, by their actors' clocks; waiting is left out."""
    started_at: float | None = None
    """Time at which it was first handed out; it may have waited for a slot after that."""
    ended_at: float | None = None
    message: str | None = None
    ending: SkipJsonSchema[Ending | None] = Field(default=None, exclude=True)
    """Reason why it is over; None while it is not. Views publish it; the report does not."""


class Trial(Work):
    """A config on one seed in one stage."""

    stage: Stage
    stop_counts: bool | None = None
    """True if the result of a trial that somebody wants stopped, or has stopped, counts; None if nobody does."""
    mlflow_run_id: str | None = None
    summary: dict[str, float | None] = {}
    """Figures that the trainer reports at its end, by name."""
    warnings: tuple[TrialWarning, ...] = ()
    """Warnings of the trial's trainer, and the signs that its curves show: the newest of each code."""


class Evaluation(Work):
    """The measurement of one model on the spec's benchmarks: a config's initial model, or one that a trial trained."""

    trial_id: str | None = None
    """The trial that trained the model; None for the initial model."""
    model_step: int = 0
    """Optimizer updates that the model has had; 0 for the initial model."""


class BenchmarkResult(Record):
    """Scores of one model on one benchmark."""

    evaluation_id: str
    benchmark: str
    time: float
    model_sha256: str
    content: dict[str, Any]
    """Scores, figures over samples, a row for each problem and the settings of sampling: docs/benchmarks.md."""
    shown: list[dict[str, Any]] = []
    """A few completions with their judgements."""


class ValidatedSweep(Record):
    """A sweep that chooses its configs by a benchmark."""

    sweep_id: str
    name: str
    benchmark: str


class AskedBefore(Record):
    """An earlier sweep that asked the same question, and has answered it."""

    sweep_id: str
    name: str
    outcome: str
    """Outcome of its verdict, such as `BETTER`, in the words of the version that built its report."""
    confirmed: dict[str, dict[int, float]] = {}
    """Objective by config id and confirm seed of the configs that the later sweep has, too, without ruined runs; empty
    where objectives are of another kind."""
    measured_by: str = ""
    """The metric of these objectives."""


class Attempt(Record):
    """One execution of a trial by one trainer process."""

    trial_id: str
    number: int
    epoch: int
    directory: str
    events_offset: int
    """Number of bytes of `events.jsonl` that the store has."""
    host: str | None = None
    pid: int | None = None
    pid_started_at: float | None = None
    """Start time of the process, which with the pid names it for good."""
    outcome: AttemptOutcome | None = None
    ending: Ending | None = None
    started_at: float
    ended_at: float | None = None
    held_from: float | None = None
    """When it began to hold its resources, in seconds since 1970; None while it waits, or if nobody noted it."""
    held_s: float = 0.0
    """Seconds for which it has held them, by its actor's clock."""
    versions: dict[str, str] | None = None
    """Versions of the packages with which it trains, by name; None until its trainer has said so."""
    message: str | None = None


class Event(Record):
    """Something that happened to a sweep; `seq` counts from 1 without gaps within the sweep."""

    sweep_id: str
    seq: int
    time: float
    type: str
    data: dict[str, Any]


class Curve(Record):
    """One metric of one trial over its optimizer updates; a step with no value has None."""

    trial_id: str
    config_id: str
    seed: int
    stage: Stage
    key: str
    steps: list[int]
    times: list[float]
    values: list[float | None]


class Sample(Record):
    """A completion that a trial's policy wrote at an evaluation."""

    trial_id: str
    step: int
    prompt: str
    completion: str
    reward: float | None
    """Reward of the completion; None where the judge failed."""


class ProblemCounts(Record):
    """Counts of right answers of a trial's policy by validation problem at one evaluation."""

    trial_id: str
    step: int
    names: tuple[str, ...]
    """Names of the problems, made from their content; judged and right are in their order."""
    judged: tuple[int, ...]
    """Number of judged samples of each problem; one on which the judge failed is missing."""
    right: tuple[int, ...]
    """Number of right ones among them."""


class Checkpoint(Record):
    """A complete checkpoint of an attempt."""

    trial_id: str
    attempt: int
    step: int
    path: str
    time: float


class CostProbe(Record):
    """A measurement of what a sweep's trials cost; no trial, and in no report."""

    sweep_id: str
    number: int
    """Number of the probe within its sweep, from 1."""
    shape: str
    """Digest of all that the figures depend on, except the machine."""
    machines: str
    """Kinds of accelerators that the cluster had, in Ray's words."""
    state: ProbeState
    training: dict[str, Any]
    """The `TrainingConfig` that was measured, as JSON."""
    gpus: float
    """Number of GPUs that the probe held."""
    held_s: float = 0.0
    """Seconds for which the probe held its GPUs, as far as the store knows."""
    started_at: float
    ended_at: float | None = None
    message: str | None = None
    figures: CostFigures | None = None
