"""The report as one typed object. HTML, JSON and Markdown only render it."""

from enum import StrEnum
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict

from sweep_service.sweep.records import Role, Stage, SweepState, TrialState, TrialWarning

REPORT_VERSION: Final = 14
"""Rises when the same rows give another report. Reports that are kept already stay as they are."""


class Outcome(StrEnum):
    """Outcome of a comparison of two configs: the first three are about averages over runs, ruined ones included.

    The next three are about sound runs, those ON THESE PROBLEMS about sound runs on the sampled problems alone.
    """

    BETTER = "BETTER"  # the config's average is higher, whatever rate of ruin the runs leave possible
    WORSE = "WORSE"  # it is lower
    EQUIVALENT = "EQUIVALENT"  # the averages differ by less than the spec calls relevant
    AHEAD = "AHEAD IN SOUND RUNS"  # higher in runs that are not ruined; how often runs are is open
    BEHIND = "BEHIND IN SOUND RUNS"  # lower in such runs
    ALIKE = "ALIKE IN SOUND RUNS"  # such runs differ by less than is relevant
    AHEAD_HERE = "AHEAD ON THESE PROBLEMS"  # higher in sound runs on these problems; others are not counted
    BEHIND_HERE = "BEHIND ON THESE PROBLEMS"  # lower in such runs on these problems
    ALIKE_HERE = "ALIKE ON THESE PROBLEMS"  # such runs differ by less than is relevant on these problems
    UNDECIDED = "UNDECIDED"  # the averages are open, and so are sound runs, or a run was ruined
    INSUFFICIENT = "INSUFFICIENT"  # too few results to say anything, or all of them equal
    EXPLORATORY = "EXPLORATORY"  # nothing was confirmed on fresh seeds: a ranking, not a finding

    @property
    def sign(self) -> int | None:
        """1 for a higher config, -1 for a lower one, 0 for two that are alike; None where nothing is told."""
        return _SIGNS.get(self)

    @property
    def is_of_all(self) -> bool:
        """True for the words about averages over all runs."""
        return self in (Outcome.BETTER, Outcome.WORSE, Outcome.EQUIVALENT)

    @property
    def is_of_these_problems(self) -> bool:
        """True for the words that say nothing about other problems, because these were not counted."""
        return self in (Outcome.AHEAD_HERE, Outcome.BEHIND_HERE, Outcome.ALIKE_HERE)


_SIGNS: Final = {
    Outcome.BETTER: 1,
    Outcome.AHEAD: 1,
    Outcome.AHEAD_HERE: 1,
    Outcome.WORSE: -1,
    Outcome.BEHIND: -1,
    Outcome.BEHIND_HERE: -1,
    Outcome.EQUIVALENT: 0,
    Outcome.ALIKE: 0,
    Outcome.ALIKE_HERE: 0,
}


class ReportPart(BaseModel):
    """Base of the report's parts: immutable."""

    model_config = ConfigDict(frozen=True)


class SweepInfo(ReportPart):
    """Identity of the sweep."""

    id: str
    name: str
    state: SweepState
    message: str | None
    labels: dict[str, str]
    created_at: float
    trial_hours: float
    """Hours for which trials held their CPUs and GPUs, all attempts together; waiting is left out."""
    gpu_hours: float
    """GPU-hours of trials, of evaluations on benchmarks and of the probe; 0 on CPUs."""
    max_gpu_hours: float | None = None
    """Limit of the budget in GPU-hours; None without one."""
    spec_digest: str
    mlflow_url: str | None


class SeedValue(ReportPart):
    """The objective of one trial."""

    seed: int
    trial_id: str
    value: float


class StageResult(ReportPart):
    """A config's objective over the seeds of one stage."""

    n: int
    """Number of seeds that have a value."""
    planned: int
    mean: float
    sd: float | None
    """Standard deviation over seeds; None for one seed."""
    low: float | None
    """95 % interval of the mean (Student's t over seeds); None for fewer than 3 seeds, for equal values, with a ruined
    run, and for the tune stage: its seeds chose the config, so an interval around its mean would be too high."""
    high: float | None
    seeds: list[SeedValue]

    @property
    def by_seed(self) -> dict[int, float]:
        """Return the objective by seed."""
        return {seed.seed: seed.value for seed in self.seeds}

    def minus(self, other: "StageResult") -> dict[int, float]:
        """Return the differences from another result, by the seeds that both have."""
        theirs = other.by_seed
        return {seed: value - theirs[seed] for seed, value in self.by_seed.items() if seed in theirs}


class ConfigRow(ReportPart):
    """A config, summed up over its trials."""

    id: str
    number: int
    label: str
    """Short text of the varied parameters: β1=0.5 β2=1."""
    roles: list[Role]
    loss: str
    params: dict[str, Any]
    """Values of the parameters that differ within the sweep, by dotted name."""
    tune: StageResult | None
    confirm: StageResult | None
    entropy_start: float | None
    """Entropy in nats a token, mean over trials of the first 5 % of the steps."""
    entropy_end: float | None
    reward_peak: float | None
    """Reward in each trial's best window of 5 % of the steps, mean over trials."""
    reward_final: float | None
    entropy_kept: float | None = None
    """Entropy at the end divided by entropy at the start, mean over trials. This and the following fields count only
    the trials that trained to the end, or all of them while there are none."""
    length_start: float | None = None
    """Length in tokens of completions sampled in training, mean over trials of the first 5 % of the steps."""
    length_end: float | None = None
    ruined: int = 0
    """Number of trials that collapsed, diverged, or ended far below the confirmed configs' median."""
    reward_collapsed: int
    """Number of trials that fell below half of their own peak reward for a window, or diverged."""
    entropy_collapsed: int
    evaluation_se: float | None = None
    """Standard error of one trial's objective from sampling completions alone: root mean square over trials."""
    tokens: float | None = None
    """Number of completion tokens trained on, mean over trials."""
    hours: float | None = None
    """Hours for which a trial held its CPUs and GPUs, all its attempts together; mean over trials that ended."""
    states: dict[TrialState, int]
    """Number of the config's trials in each state."""

    def stage(self, stage: Stage) -> StageResult | None:
        """Return the config's result in one stage."""
        return self.confirm if stage is Stage.CONFIRM else self.tune


class RunCounts(ReportPart):
    """Numbers of a config's ended runs of the confirm stage, by ending."""

    runs: int
    """Runs with a result, and runs that failed by themselves."""
    ruined: int
    """Runs with a result that collapsed, diverged, or ended far below the others."""
    failed: int = 0
    missing: int = 0
    """Runs that began and have ended without a result, by no fault of their own: lost, cancelled or discarded ones."""
    ruined_before: int = 0
    """Ruined or failed runs of the tune stage, and of a batch that is left out; the bound leaves both out."""
    error: float = 0.05
    """Probability with which `bound` errs at most: 5 % for all configs compared at once, less at a further look."""
    bound: float
    """Largest rate of ruined and failed runs that these leave possible; of two compared configs, those that one has
    missing more than the other count as ruined."""

    @property
    def bad(self) -> int:
        """Runs that were ruined or failed."""
        return self.ruined + self.failed

    @property
    def spoilt(self) -> bool:
        """True if any run of either stage was ruined or failed."""
        return bool(self.bad or self.ruined_before)

    @property
    def seen(self) -> float:
        """The share of runs that were ruined or failed."""
        return self.bad / self.runs if self.runs else 0.0


class Comparison(ReportPart):
    """Config minus comparator, paired by confirm seed, without the seeds on which one of them was ruined."""

    config_id: str
    label: str
    comparator_id: str
    comparator_role: Role
    comparator_label: str
    differs_in: list[str] = []
    """Dotted names of the settings in which the two differ; those of the loss together are `loss`."""
    outcome: Outcome
    tolerated: float | None = None
    """Share of ruined runs, of whichever is ahead, that would cost all of its lead among sound runs, or of either that
    would cost more than may differ; None where the average is decided, or sound runs decide nothing, or problems do not
    count."""
    own: RunCounts
    """Runs of the config in the confirm stage."""
    other: RunCounts
    """Runs of the comparator."""
    compared: int = 1
    """Number of configs compared with this comparator, or each with its own; bounds of rates hold for all of them."""
    with_ruined: bool = False
    """True if the difference counts ruined runs, because too few pairs are left without them."""
    average_low: float | None = None
    """Lower end for the difference of the two averages over runs, ruined ones included, whatever rate of ruin these
    runs leave possible; None without an interval."""
    average_high: float | None = None
    batch: str = ""
    """Hardware and versions with which the compared runs trained, such as `on NVIDIA H200 with torch 2.13.0`, where
    other runs of the two trained otherwise; empty where all trained alike."""
    other_seeds: int = 0
    """Confirm seeds with results of both that are left out, because not both runs trained so."""
    num_seeds: int
    difference: float
    low: float | None
    """Lower end of the interval; those of `family` configs against their comparators hold at once."""
    high: float | None
    """Upper end, which holds by itself: choosing the best of several configs can only push its difference up."""
    standard_error: float | None
    seed_error: float | None = None
    """The part of the standard error that other training seeds would change."""
    df: int | None
    """Degrees of freedom of that part."""
    num_problems: int | None = None
    """Number of validation problems that the interval counts; None where it counts seeds alone."""
    num_groups: int | None = None
    """Number of groups among them, which are independent of each other."""
    problem_error: float | None = None
    """The part of the standard error that other problems would change."""
    problem_df: int | None = None
    """Degrees of freedom of that part."""
    variance: Literal["pooled", "pair"] | None
    """Source of the seeds' variance: pooled with other configs' differences from the comparator, or this pair's own."""
    confidence: float = 0.95
    """Confidence of the interval: more than 95 % at a further look."""
    family: int
    """Number of compared configs; of all tuned ones where these validation problems chose from them and are counted."""
    detectable: float | None
    """True difference that as many seeds would find with 80 % probability."""

    @property
    def pair(self) -> tuple[str, str]:
        """Ids of the config and of its comparator."""
        return self.config_id, self.comparator_id

    @property
    def spoilt(self) -> bool:
        """True if any run of the two was ruined or failed, in any stage."""
        return self.own.spoilt or self.other.spoilt


class TieMember(ReportPart):
    """A config that may be the best one, or may not."""

    config_id: str
    label: str
    mean: float
    """Mean over its sound confirm runs that are compared, or over all that are compared if none is sound."""
    num_runs: int = 0
    """Number of its sound confirm runs that are compared."""
    left_out: int = 0
    """Number of its other confirm runs with a result: ruined, or trained otherwise."""
    in_set: bool
    """True if the data leave it possible that this is the best of the confirmed configs on average over all runs."""
    in_sound_set: bool = True
    """True if the same is possible on average over sound runs, among the configs that have any."""
    low: float | None
    """Simultaneous interval of (this config minus the best of the others) on average over all runs: multiple comparison
    with the best."""
    high: float | None


class TieSet(ReportPart):
    """Confirmed configs, comparators included, that cannot be told from the best; best mean first."""

    members: list[TieMember]
    text: str
    """The result in a sentence."""


class Purchase(ReportPart):
    """The next seeds to train, to decide the question."""

    text: str
    """Sentence such as: 4 more confirm seeds find a difference of 0.02 with 80 % probability, and the command."""
    config_ids: list[str]
    more_seeds: int
    """Number of further seeds for each config; 0 where none is needed, or no number would do."""
    difference: float
    """True difference that would then be found."""
    power: float | None
    """Probability of finding it at the next look; None where nothing is known about the spread over seeds."""
    power_range: list[float] | None = None
    """The same probability if the true spread is at either end of its 80 % interval."""


class Verdict(ReportPart):
    """The answer."""

    outcome: Outcome
    sentence: str
    basis: str = ""
    """Basis of the interval: the numbers of seeds and problems, and their part in choosing the configs."""
    relevant: float | None = None
    """Smallest difference that matters, where two configs are alike: the interval lies within it on both sides."""
    comparison: Comparison | None = None
    ties: TieSet | None = None
    next: Purchase | None = None


class EffectLevel(ReportPart):
    """The configs that share one value of a parameter, adjusted for all other parameters.

    Of a trend: a point of its range, and the configs nearest to it.
    """

    value: Any
    text: str
    mean: float
    low: float | None
    """95 % interval of the difference from the mean of all levels, added to that mean."""
    high: float | None
    configs: int


class Effect(ReportPart):
    """Average effect of one varied parameter over all values of the others."""

    name: str
    label: str
    levels: list[EffectLevel]
    df: int
    """Degrees of freedom; 0 where the design cannot tell the parameter from others."""
    f: float | None
    p: float | None
    """P value for no effect at all; None where no degree of freedom is left for the error."""
    trend_p: float | None = None
    """P value for no linear trend over the parameter's values; None for values without order."""
    kind: Literal["levels", "trend"] = "levels"
    """`levels`: each value has its own mean; `trend`: all lie on a fitted parabola or line."""


class Surface(ReportPart):
    """A quadratic response surface over two or more numeric parameters, fitted to the means of configs."""

    names: list[str]
    terms: dict[str, float]
    """Coefficients of the parameters as they stand, such as `β1`, `β1 β2`, `β1²`, and `1`; of `log10 lr` where it was
    searched on a log scale."""
    r2: float
    residual_df: int
    at: dict[str, float]
    """Point, by dotted name, at which the surface is highest within the range tried."""
    predicted: float
    low: float | None
    """95 % interval of the mean there, if the surface holds."""
    high: float | None
    text: str


class Exploration(ReportPart):
    """Findings of the tune stage about parameters, not configs: a reason for the next sweep, never a verdict."""

    effects: list[Effect]
    """Main effects, with what they leave unexplained (interactions and noise) as their error; strongest first."""
    error_sd: float | None
    """Standard deviation of the error of a config's mean."""
    error_df: int
    surface: Surface | None
    text: list[str]
    """Effects in sentences, the strongest first."""


Unit = Literal["steps", "tokens", "hours"]
"""Optimizer updates, completion tokens trained on, or hours of a trial since its first evaluation (times its GPUs, if
it has any)."""


class BudgetComparison(ReportPart):
    """A comparison's difference had both stopped at the same cost: betas change lengths, and so what a step costs."""

    config_id: str
    comparator_id: str
    unit: Unit
    budget: float | None
    """Cost spent by the cheaper one of the pair, mean over seeds; None for steps, and where both always diverged."""
    num_seeds: int
    difference: float
    low: float | None
    """95 % interval from the pair's own spread (Student's t), one pair at a time; None for fewer than 3 seeds."""
    high: float | None


class Profile(ReportPart):
    """Share of a config's confirm seeds whose objective is at least so high."""

    config_id: str
    shares: list[float]


class Descriptive(ReportPart):
    """Summaries without a claim: interquartile means, performance profiles, probabilities of improvement."""

    comparator_id: str
    thresholds: list[float]
    profiles: list[Profile]
    iqm: dict[str, float]
    """Interquartile mean over confirm seeds of (config minus comparator), by config id. Values that a quartile cuts
    count in part, so it is a plain mean for two seeds and leans on the middle one for three."""
    improvement: dict[str, float]
    """Share of the pairs (seed of the config, seed of the comparator) in which the config is higher, by config id;
    equal ones count half."""
    training_sd: float | None
    """Spread of the objective over training seeds, pooled within configs that did not collapse."""
    evaluation_se: float | None
    """Part of `training_sd` that comes from sampling completions at evaluations."""


class BenchmarkDifference(ReportPart):
    """The difference between a config and the baseline on benchmarks, paired by training seed and by problem.

    Models of ruined runs are left out; where too few are left without them, they count, and there is no interval.
    """

    difference: float
    low: float | None
    """Lower end of the 95 % interval, over other seeds and other problems of the same kind; those of all compared
    configs hold at once. None on tune seeds, which chose the configs, and for fewer than 3 paired seeds."""
    high: float | None
    """Upper end of the interval, which holds for this config by itself."""
    num_seeds: int
    """Number of training seeds on which both models were measured."""
    num_problems: int | None
    """Number of problems that the interval counts; None where it counts seeds alone, or is missing."""
    shown: bool
    """True if the interval excludes 0."""


class BenchmarkCell(ReportPart):
    """The models of one config on one benchmark, or on all."""

    mean: float
    """Mean of avg@k over seeds; in the column of all benchmarks, the mean over these with equal weights."""
    num_seeds: int
    """Number of models measured; 1 for an initial model."""
    num_problems: int
    k: int | None
    """Number of completions of each problem; None for the mean over benchmarks."""
    pass_at_k: dict[int, float] = {}
    """Chance that one of k completions is right, by k, mean over seeds; empty for the mean over benchmarks."""
    difference: BenchmarkDifference | None = None
    """Difference from the baseline; None for initial models, the baseline itself, and where no seed is shared."""


class BenchmarkColumn(ReportPart):
    """One benchmark, or the mean over all of them."""

    benchmark: str | None
    """Name of the benchmark in the catalog; None for the mean over all benchmarks, which weigh the same."""
    leader: str | None
    """Id of the config with the highest mean, if it is shown to be above the baseline; None otherwise."""


class BenchmarkRow(ReportPart):
    """The models of one config after their last update, or a model before any."""

    config_id: str
    """Id of the config; for an initial model, of the first config that starts from it."""
    label: str
    initial: bool = False
    stage: Stage | None
    """Stage of the measured trials: the confirm stage where the config has it; None for an initial model."""
    cells: list[BenchmarkCell | None]
    """The row's cells, one for each column; None where no model was measured."""
    missing: dict[str, int] = {}
    """Number of models that were not measured on every benchmark, by reason."""


class BenchmarkTable(ReportPart):
    """Scores of initial and trained models on benchmarks, which neither choose a config nor make the verdict."""

    columns: list[BenchmarkColumn]
    rows: list[BenchmarkRow]
    """Initial models, the baseline, further comparators, then the configs of the space, best objective first."""
    sentence: str
    """Says whether the mean over benchmarks agrees with the verdict on the objective."""
    text: list[str]
    """Sentences that say how to read the table, and how much its problems can show."""

    @property
    def names(self) -> list[str]:
        """Return the names of the benchmarks."""
        return [column.benchmark for column in self.columns if column.benchmark is not None]


class Cell(ReportPart):
    """One combination of two parameters (and the facet's)."""

    x: str
    y: str
    facet: str | None
    config_id: str | None
    """Id of the config in this cell, the best by tune mean if several differ in `others`; None for a hole."""
    mean: float | None
    """Mean objective over tune seeds; None for a hole, or without a tune result."""
    half_width: float | None
    """Half width of the mean's 95 % interval. The variance is the config + seed model's, pooled over configs without
    a collapse, or the config's own where it collapsed. None below 2 seeds a config (3 where it collapsed)."""
    n: int
    planned: int
    confirm: float | None
    """Confirm mean of the config; None if it was not confirmed."""
    entropy_kept: float | None
    """Entropy at the end divided by entropy at the start, mean over tune trials (confirm trials, if there are no
    others)."""


class Grid(ReportPart):
    """The objective over the two first varied parameters (beta1 and beta2 if they vary), faceted by a third."""

    x: str
    """Dotted name of the parameter on the x axis."""
    y: str
    facet: str | None
    xs: list[str]
    """Values of x in order."""
    ys: list[str]
    facets: list[str]
    cells: list[Cell]
    """Cells of every combination, holes included."""
    others: list[str]
    """Further varied parameters, over which a cell averages."""


class TradeoffPoint(ReportPart):
    """A config in the plane of objective and retained entropy.

    Both are means over its confirm trials, or over its tune trials if it has no others; the objective then has no
    interval, for these trials chose the config.
    """

    config_id: str
    objective: float
    objective_low: float | None
    objective_high: float | None
    entropy_kept: float
    entropy_low: float | None
    entropy_high: float | None
    n: int
    on_front: bool
    """True if no other config is better in one coordinate and at least as good in the other."""


class Importance(ReportPart):
    """Share of the objective's variation that each parameter explains, by two methods for two different questions."""

    names: list[str]
    fanova: list[float]
    """Share of the variance over the whole space that the parameter explains alone; joint effects are the rest."""
    ped_anova: list[float]
    """Weight of the parameter in whether a config is among the best tenth (at least 5); all add up to 1."""
    num_configs: int
    text: str


class Holds(StrEnum):
    """The sweep's evidence on a claim of a paper."""

    HOLDS = "HOLDS"
    FAILS = "FAILS"
    DEPENDS = "DEPENDS"
    """Shown to be one way at one value of another parameter and the other way at another."""
    UNDECIDED = "UNDECIDED"


class Claim(ReportPart):
    """Something that the CE-GPPO paper says, held against this sweep."""

    code: str
    claim: str
    """The claim in words, with its place in the paper."""
    outcome: Holds
    evidence: str
    estimate: float | None = None
    low: float | None = None
    high: float | None = None
    num_pairs: int = 0


class SampledCompletion(ReportPart):
    """One completion with its prompt."""

    prompt: str
    completion: str
    reward: float | None
    """Reward of the completion; None where the judge failed."""


class SampleGroup(ReportPart):
    """Completions of one config's policies at their last evaluation."""

    role: Literal["best", "baseline", "worst"]
    config_id: str
    label: str
    trial_id: str
    seed: int
    step: int
    items: list[SampledCompletion]


class Caution(ReportPart):
    """A warning: the rule that was met, and where."""

    code: str
    rule: str = ""
    """The rule in words, with its threshold."""
    text: str
    """The evidence in words."""
    trials: list[str] = []
    """Ids of the trials that met the rule."""


class CheckpointRef(ReportPart):
    """Location of a trained policy of the best config."""

    trial_id: str
    seed: int
    stage: Stage
    step: int
    path: str


class BestConfig(ReportPart):
    """The config to look at first: the best of the space, ready to run."""

    model_config = ConfigDict(title="Best")

    config_id: str
    label: str
    why: str
    """Sentence that says how the config was chosen."""
    tune: StageResult | None
    confirm: StageResult | None
    optimism: float | None
    """Tune mean minus confirm mean, or where `halves` says so what its lead over a comparator lost: the amount by which
    its own selection flattered the config."""
    params: dict[str, Any] = {}
    """Values of the varied parameters, by dotted name."""
    evidence: list[str] = []
    """Sentences for and against the config."""
    others: list[str] = []
    """Sentences that say why other configs were not picked."""
    yaml: str
    command: str
    seeds: list[int] = []
    """Confirm seeds, of which the file trains the first."""
    checkpoints: list[CheckpointRef] = []
    mlflow_urls: list[str] = []
    provenance: dict[str, str] = {}
    """Everything else that a repetition needs: code version, digests of model and data, machine."""


class TrialRow(ReportPart):
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
    failed_by_itself: bool = False
    """True if it failed, and neither its machine or its cluster nor somebody's wish was the reason."""
    missing: bool = False
    """True if it began and has ended without a result, but did not fail by itself. One that never began is not missing:
    nothing could have left it out for its result."""
    ruined: bool = False
    """True if it has a result, but collapsed, diverged, or ended far below the confirmed configs' median."""
    reward_collapsed: bool
    entropy_collapsed: bool
    entropy_kept: float | None = None
    length_start: float | None = None
    length_end: float | None = None
    evaluation_se: float | None = None
    """Standard error of the trial's objective from sampling completions."""
    tokens: float | None = None
    seconds: float | None
    message: str | None
    warnings: list[TrialWarning] = []
    mlflow_url: str | None
    benchmarks: dict[str, float] = {}
    """avg@k on each benchmark, by name, of the model after the last update; a benchmark that lacks it is left out."""


class SeedCurve(ReportPart):
    """One trial's curve, thinned so that peaks stay."""

    trial_id: str
    seed: int
    stage: Stage
    steps: list[int]
    values: list[float | None]


class ReportCurve(ReportPart):
    """One config's curve: the mean over the trials that have a value, where at least half of them do."""

    model_config = ConfigDict(title="ConfigCurve")

    config_id: str
    steps: list[int]
    mean: list[float | None]
    low: list[float | None] = []
    """95 % interval of the mean at each step (Student's t over trials, pointwise); empty below 3 trials. With many
    configs only those that figures show at first have it."""
    high: list[float | None] = []
    seeds: list[SeedCurve]


class CurveSet(ReportPart):
    """One metric over optimizer updates, for every config."""

    key: str
    configs: list[ReportCurve]


class Report(ReportPart):
    """Everything that the report says."""

    report_version: Literal[14] = REPORT_VERSION
    inputs_digest: str
    interim: bool
    """True if the sweep was still running, so that every number may change."""
    sweep: SweepInfo
    objective: str
    """Name of the compared objective, in words."""
    halves: bool = False
    """True if one half of the validation problems chose configs and the other half measured them."""
    higher_is_better: Literal[True] = True
    verdict: Verdict
    benchmarks: BenchmarkTable | None = None
    """None where the spec names no benchmarks."""
    cautions: list[Caution]
    best: BestConfig | None
    comparisons: list[Comparison]
    budgets: list[BudgetComparison] = []
    claims: list[Claim] = []
    exploration: Exploration | None = None
    descriptive: Descriptive | None = None
    grid: Grid | None = None
    tradeoff: list[TradeoffPoint] = []
    importance: Importance | None = None
    configs: list[ConfigRow]
    """Configs, confirmed ones first, best first."""
    trials: list[TrialRow]
    curves: list[CurveSet]
    samples: list[SampleGroup] = []
    method: list[str]
    """Sentences that say how the numbers were made."""
    versions: dict[str, str]

    def curves_of(self, key: str) -> CurveSet | None:
        """Return one metric's curves; None if nothing recorded it."""
        return next((curves for curves in self.curves if curves.key == key), None)


def report_json(report: Report) -> bytes:
    """Return the report as JSON, ending in a newline."""
    return report.model_dump_json().encode() + b"\n"
