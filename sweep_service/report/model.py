"""The report as one typed object. HTML, JSON and Markdown only render it."""

from enum import StrEnum
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from sweep_service.records import Role, Stage, SweepState, TrialState, TrialWarning
from sweep_service.report.data import REPORT_VERSION


class Outcome(StrEnum):
    """What the numbers say about the best config of the space and its comparator."""

    BETTER = "BETTER"  # the whole interval of the difference lies above zero
    TIED = "TIED"  # the interval contains zero: the two cannot be told apart
    WORSE = "WORSE"  # the whole interval lies below zero
    INSUFFICIENT = "INSUFFICIENT"  # too few results to say anything
    EXPLORATORY = "EXPLORATORY"  # nothing was confirmed on fresh seeds: a ranking, not a finding


class Part(BaseModel):
    """Base of the report's parts: immutable."""

    model_config = ConfigDict(frozen=True)


class SweepInfo(Part):
    """Which sweep this is."""

    id: str
    name: str
    state: SweepState
    message: str | None
    labels: dict[str, str]
    created_at: float
    trial_hours: float
    """Wall-clock hours of all trials together."""
    spec_digest: str
    mlflow_url: str | None


class SeedValue(Part):
    """The objective of one trial."""

    seed: int
    trial_id: str
    value: float


class StageResult(Part):
    """A config's objective over the seeds of one stage."""

    n: int
    """Seeds that have a value."""
    planned: int
    mean: float
    sd: float | None
    """Over seeds; None for one seed."""
    low: float | None
    """95 % interval of the mean (Student's t over seeds); None for fewer than 3 seeds, and for the tune stage: these
    seeds chose the config, so an interval around its mean would be too high."""
    high: float | None
    seeds: list[SeedValue]


class ConfigRow(Part):
    """A config, summed up over its trials."""

    id: str
    number: int
    label: str
    """The varied parameters, short: β1=0.5 β2=1."""
    roles: list[Role]
    loss: str
    params: dict[str, Any]
    """The parameters that differ within the sweep."""
    tune: StageResult | None
    confirm: StageResult | None
    entropy_start: float | None
    """Nats a token, mean over trials of the first 5 % of the steps."""
    entropy_end: float | None
    reward_peak: float | None
    """Mean over trials of each one's best window of 5 % of the steps."""
    reward_final: float | None
    reward_collapsed: int
    """Trials that ended below half of their own peak reward, or diverged."""
    entropy_collapsed: int
    states: dict[TrialState, int]
    """How many of its trials are in which state."""


class Comparison(Part):
    """Config minus comparator, paired by confirm seed."""

    config_id: str
    label: str
    comparator_id: str
    comparator_role: Role
    comparator_label: str
    outcome: Outcome
    num_seeds: int
    difference: float
    low: float | None
    """95 % interval that holds for all `family` configs compared with this comparator at once."""
    high: float | None
    standard_error: float | None
    df: int | None
    variance: Literal["pooled", "pair"] | None
    """Whose: all configs that did not collapse, or this pair's own."""
    family: int
    detectable: float | None
    """The true difference that as many seeds would find with 80 % probability."""


class Verdict(Part):
    """The answer."""

    outcome: Outcome
    sentence: str
    comparison: Comparison | None = None


class Caution(Part):
    """A warning: the rule that was met, and where."""

    code: str
    text: str
    trials: list[str] = []
    """Ids of the trials that met the rule."""


class Best(Part):
    """The config to look at first: the best of the space, ready to run."""

    config_id: str
    label: str
    why: str
    """How it was chosen."""
    tune: StageResult | None
    confirm: StageResult | None
    optimism: float | None
    """Tune mean minus confirm mean: how much its own selection flattered it."""
    yaml: str
    command: str


class TrialRow(Part):
    """One trial."""

    id: str
    number: int
    config_id: str
    label: str
    seed: int
    stage: Stage
    state: TrialState
    attempts: int
    step: int
    total_steps: int
    objective: float | None
    entropy_start: float | None
    entropy_end: float | None
    reward_peak: float | None
    reward_final: float | None
    reward_collapsed: bool
    entropy_collapsed: bool
    seconds: float | None
    message: str | None
    warnings: list[TrialWarning] = []
    mlflow_url: str | None


class SeedCurve(Part):
    """One trial's curve, thinned so that peaks stay."""

    trial_id: str
    seed: int
    stage: Stage
    steps: list[int]
    values: list[float | None]


class ConfigCurve(Part):
    """One config's curve: the mean over the trials that have a value, where at least half of them do."""

    config_id: str
    steps: list[int]
    mean: list[float | None]
    seeds: list[SeedCurve]


class CurveSet(Part):
    """One metric over optimizer updates, for every config."""

    key: str
    configs: list[ConfigCurve]


class Report(Part):
    """Everything that the report says."""

    report_version: Literal[2] = REPORT_VERSION
    inputs_digest: str
    interim: bool
    """Whether the sweep was still going on: every number may change."""
    sweep: SweepInfo
    objective: str
    """What is compared, in words."""
    higher_is_better: Literal[True] = True
    verdict: Verdict
    cautions: list[Caution]
    best: Best | None
    comparisons: list[Comparison]
    configs: list[ConfigRow]
    """Confirmed ones first, best first."""
    trials: list[TrialRow]
    curves: list[CurveSet]
    method: list[str]
    """How the numbers were made, a sentence each."""
    versions: dict[str, str]


def report_json(report: Report) -> bytes:
    """The report as JSON, ending in a newline."""
    return report.model_dump_json(indent=1).encode() + b"\n"
