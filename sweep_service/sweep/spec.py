"""The spec of a sweep: one `SweepSpec` for REST, CLI and Python."""

from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, Final, Literal, Self, TypeVar, cast

from pydantic import BeforeValidator, Field, Strict, StringConstraints, field_validator, model_validator

from search_spaces.presets import PRESETS
from search_spaces.space import SearchSpace
from search_spaces.strategies import STRATEGIES, Strategy, drawing_strategies
from sweep_service.sweep.early_stopping import SpecEarlyStopping
from sweep_service.sweep.health_actions import Action, HealthActions
from sweep_service.sweep.own_trainer import OwnTrainer, Trained
from sweep_service.sweep.points import BoundPoint, BoundSpace, digest
from trainers.config import Frozen, TrainingConfig, VLLMEngine
from trainers.config.base import CatalogName

Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?$")]
Switch = Annotated[bool, Strict()]
"""True or false; neither 1 nor `no` stands for it."""
Seed = Annotated[int, Field(ge=0, lt=2**32)]
Value = TypeVar("Value")
UpdateCount = Annotated[int, Field(ge=1, le=10_000_000)]


def preset_or_space(value: object) -> object:
    """Replace `{preset: NAME}` by that preset."""
    if isinstance(value, Mapping) and "preset" in value:
        space = cast("Mapping[str, object]", value)
        name = str(space["preset"])
        if others := sorted(space.keys() - {"preset"}):
            raise ValueError(
                f"a preset stands alone; remove {', '.join(others):.100}, or write the preset's values out"
            )
        if name not in PRESETS:
            raise ValueError(f"there is no preset {name!r}; there are {', '.join(sorted(PRESETS))}")
        return PRESETS[name]
    return cast("object", value)


def _labels(value: object) -> object:
    """Refuse what is no mapping, with an example."""
    if not isinstance(value, Mapping):
        raise ValueError("labels are names with texts, as in labels: {team: rl}")
    return cast("object", value)


class Search(Frozen):
    """Who proposes the next config."""

    strategy: Strategy = Field(
        default="grid", description="; ".join(f"{name}: {row.meaning}" for name, row in STRATEGIES.items()) + "."
    )
    num_configs: int | None = Field(
        default=None, ge=1, le=10_000, description=f"For {drawing_strategies('and')}: how many to try."
    )
    seed: Seed = 0

    @model_validator(mode="after")
    def _count(self) -> Self:
        if self.is_grid and self.num_configs is not None:
            remedy = f"leave num_configs out, or use strategy {drawing_strategies('or')}"
            raise ValueError(f"a grid tries every point; {remedy}")
        if not self.is_grid and self.num_configs is None:
            raise ValueError(f"strategy {self.strategy} needs num_configs: how many configs to try")
        return self

    @property
    def is_grid(self) -> bool:
        """True if all points of the space are tried; otherwise `num_configs` points are drawn, one by one."""
        return STRATEGIES[self.strategy].is_grid


MIN_SEEDS: Final = 3
"""Smallest number of seeds for which the report gives an interval of a difference."""


class Confirm(Frozen):
    """The stage that measures the best configs and the baselines on fresh seeds."""

    top_k: int = Field(default=2, ge=1, le=100, description="Number of tuned configs that are confirmed.")
    seeds: tuple[Seed, ...] = Field(min_length=1, max_length=1000)
    problems: Literal["apart", "same"] = Field(
        default="apart",
        description="apart: one half of the validation problems chooses configs, the other measures them; same: all do "
        "both.",
    )


class Seeds(Frozen):
    """Training seeds of each stage; every config gets the same ones, so that differences are paired."""

    tune: tuple[Seed, ...] = Field(default=(0, 1), min_length=1, max_length=1000)
    confirm: Confirm | None = None

    @model_validator(mode="after")
    def _disjoint(self) -> Self:
        confirm = self.confirm.seeds if self.confirm else ()
        for stage, seeds in (("tune", self.tune), ("confirm", confirm)):
            if len(set(seeds)) < len(seeds):
                raise ValueError(f"{stage} seeds repeat: {list(seeds)}")
        if shared := sorted(set(self.tune) & set(confirm)):
            raise ValueError(f"seeds {shared} are in both stages; a config chosen on a seed cannot be confirmed on it")
        return self


class Baselines(Frozen):
    """Baselines of every sweep, beside its own configs."""

    ppo_clip: Switch = Field(
        default=True,
        description="The base parameters with PPO-clip's gradient (ce_gppo: beta1 = beta2 = 0).",
    )
    dapo: Switch = Field(default=True, description="The base parameters with DAPO's clip-higher loss.")
    matched: Switch = Field(
        default=True, description="In the confirm stage: each chosen config with PPO-clip's gradient."
    )


class Objective(Frozen):
    """The one number by which configs are ranked, from a trial's evaluations on validation problems."""

    metric: Literal["eval/avg_at_k", "eval/pass_at_k", "eval/reward_mean"] = Field(
        default="eval/avg_at_k",
        description="avg@k and pass@k count right answers; reward_mean only where all trials have the same reward.",
    )
    relevant: float = Field(
        default=0.02,
        gt=0,
        le=1e9,
        description="The smallest difference that matters, in units of the metric; the default is about what the "
        "CE-GPPO paper reports between methods.",
    )
    last: int = Field(default=3, ge=1, le=100, description="Mean over the last so many evaluations; never a maximum.")
    diverged: float = Field(
        default=0,
        ge=-1e9,
        le=1e9,
        description="Objective of a diverged trial: the worst there is. Other than 0 with reward_mean alone.",
    )

    @model_validator(mode="after")
    def _lowest(self) -> Self:
        if self.diverged and self.metric != "eval/reward_mean":
            raise ValueError(f"diverged {self.diverged:g}: the lowest {self.metric} is 0; leave it out")
        return self


class Resources(Frozen):
    """Resources of one trial."""

    cpus: float = Field(default=1, ge=0.01, le=1024)
    gpus: float = Field(default=0, ge=0, le=1024, description="Whole GPUs, or a fraction of one.")
    processes: int | None = Field(
        default=None, ge=1, le=1024, description="Processes that train one policy; default: one for each whole GPU."
    )
    max_parallel: int | None = Field(
        default=None, ge=1, le=10_000, description="Trials and evaluations at a time; default: as many as fit."
    )

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.gpus > 1 and self.gpus != int(self.gpus):
            raise ValueError(f"gpus {self.gpus}: above 1 only whole GPUs can be given to a trial")
        return self

    def processes_for(self, training: TrainingConfig) -> int:
        """Return how many processes train one policy: one for each whole GPU that is not reserved for vLLM."""
        engine = training.rollout.engine
        served = engine.server_gpus if isinstance(engine, VLLMEngine) and engine.mode == "server" else 0
        return self.processes or max(1, int(self.gpus) - served)


class EvaluationResources(Frozen):
    """Resources of one evaluation on benchmarks; omitted values default to the trial's."""

    cpus: float | None = Field(default=None, ge=0.01, le=1024)
    gpus: float | None = Field(default=None, ge=0, le=1024, description="Whole GPUs, or a fraction of one.")


def _names(value: object) -> object:
    """Let a name or a list of names stand for the benchmarks with their own settings."""
    if isinstance(value, str):
        return {"names": [value]}
    return {"names": cast("object", value)} if isinstance(value, list | tuple) else value


class BenchmarkSettings(Frozen):
    """Benchmarks and how completions of their problems are sampled."""

    names: tuple[CatalogName, ...] = Field(min_length=1, max_length=50, description="Benchmarks of the catalog.")
    samples: int | None = Field(
        default=None,
        ge=1,
        le=4096,
        description="Completions of each problem; null: the benchmark's own.",
    )
    longest: int | None = Field(
        default=None, ge=1, le=2**20, description="Most tokens of a completion; null: the benchmark's own."
    )
    temperature: float | None = Field(default=None, gt=0, le=5, description="null: the benchmark's own.")
    top_p: float | None = Field(default=None, gt=0, le=1, description="null: the benchmark's own.")

    @field_validator("names")
    @classmethod
    def _named_once(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        return _each_once("names", names)

    @property
    def sampling(self) -> dict[str, int | float | None]:
        """Sampling settings by name; None where the benchmark's own holds."""
        return {"samples": self.samples, "longest": self.longest, "temperature": self.temperature, "top_p": self.top_p}


class Benchmarks(BenchmarkSettings):
    """Benchmarks on which models are measured beside their training. No config is ever chosen by them."""

    of: Literal["confirmed", "all"] = Field(
        default="confirmed",
        description="Models of the confirm stage's trials, or of all trials; the initial model is always measured.",
    )
    at: Literal["end"] | Annotated[tuple[UpdateCount, ...], Field(min_length=1, max_length=100)] = Field(
        default="end", description="end, or a list of optimizer steps: the models as they were after these."
    )
    resources: EvaluationResources = EvaluationResources()

    @field_validator("at")
    @classmethod
    def _each_step_once(cls, at: Literal["end"] | tuple[int, ...]) -> Literal["end"] | tuple[int, ...]:
        return at if at == "end" else _each_once("at", at)


def _each_once(what: str, values: tuple[Value, ...]) -> tuple[Value, ...]:
    if len(set(values)) < len(values):
        raise ValueError(f"{what} repeat: {', '.join(map(str, values))}")
    return values


SpecBenchmarks = Annotated[Benchmarks | None, BeforeValidator(_names)]


class Budget(Frozen):
    """Limits of a sweep. Nothing starts that could pass them."""

    max_gpu_hours: float | None = Field(default=None, gt=0, le=1e9, description="GPUs x hours of all trials together.")
    max_trial_hours: float | None = Field(
        default=None,
        ge=0.001,
        le=100_000,
        description="Hours of one trial, its attempts together; then it is stopped, as failed.",
    )
    max_wait_hours: float | None = Field(
        default=None,
        ge=0,
        le=100_000,
        description="Hours that the sweep waits for a node on which its work fits; default: as long as it takes.",
    )


class Retries(Frozen):
    """Limits on crashes, on silence, and on failed trials."""

    max_crashes: int = Field(
        default=3,
        ge=0,
        le=100,
        description="Crashes in a row, with no step further, that are forgiven; one more and the trial has failed.",
    )
    hung_after_minutes: float = Field(
        default=30,
        ge=1,
        le=10_000,
        description="Minutes without an event or processor time after which a trainer is killed, as crashed.",
    )
    max_failed_trials: int | None = Field(
        default=10,
        ge=1,
        le=100_000,
        description="A sweep of which so many trials have FAILED, and none has a result, ends; null tries all of them.",
    )


class SweepSpec(Frozen):
    """A sweep: what to train, which parameters to vary, on which seeds, with which resources."""

    schema_version: Literal[1] = 1
    name: Name
    labels: Annotated[dict[Name, Annotated[str, StringConstraints(max_length=200)]], BeforeValidator(_labels)] = Field(
        default={}, max_length=50
    )
    training: dict[str, Any] = Field(
        default={},
        description="TrainingConfig: what differs from its defaults. With `trainer`, any settings that it reads.",
    )
    trainer: OwnTrainer | None = Field(
        default=None,
        exclude_if=lambda trainer: trainer is None,  # sweeps without one have the digests that they always had
        description="A program that trains in place of `python -m trainers`.",
    )
    space: Annotated[SearchSpace, BeforeValidator(preset_or_space)] = Field(
        description="Dotted names of the training configuration and the values they take; or {preset: NAME}."
    )
    search: Search = Search()
    early_stopping: SpecEarlyStopping = Field(
        default=None,
        exclude_if=lambda rule: rule is None,  # sweeps without one have the digests that they always had
        description="A rule that drops configs before all of their tune trials have ended; its name will do.",
    )
    health: HealthActions = Field(
        default=HealthActions(),
        exclude_if=lambda health: health == HealthActions(),
        description="What is done with a run that shows a sign of ill health: warn, stop, or pause.",
    )
    seeds: Seeds = Seeds()
    baselines: Baselines = Baselines()
    objective: Objective = Objective()
    resources: Resources = Resources()
    budget: Budget = Budget()
    probe: Literal["off", "first", "only"] | None = Field(
        default=None,
        description="Measure a few updates at full length before the first trial; default: first, if trials have GPUs.",
    )
    retries: Retries = Retries()
    benchmarks: SpecBenchmarks = Field(
        default=None, description="Benchmarks of the catalog on which the models are measured; a list of names will do."
    )

    @model_validator(mode="before")
    @classmethod
    def _own_baseline(cls, data: object) -> object:
        """Leave out the baselines of our losses where another program trains; who asks for one is refused later."""
        if not isinstance(data, Mapping):
            return data
        document = cast("Mapping[str, Any]", data)
        baselines = document.get("baselines", {})
        if document.get("trainer") is None or not isinstance(baselines, Mapping):
            return document
        none = dict.fromkeys(Baselines.model_fields, False)
        return {**document, "baselines": {**none, **cast("Mapping[str, Any]", baselines)}}

    @property
    def evaluation_resources(self) -> Resources:
        """The resources of one evaluation on benchmarks, with those of a trial where the spec names none."""
        own = self.benchmarks.resources.model_dump(exclude_none=True) if self.benchmarks else {}
        return self.resources.model_copy(update={**own, "processes": 1})

    @cached_property
    def bound(self) -> BoundSpace:
        """The space on the base settings, in which each point is bound once."""
        return BoundSpace(self.space, self.training, self.trainer, self.benchmarks.names if self.benchmarks else ())

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy, which binds points anew."""
        copy = super().model_copy(update=update, deep=deep)
        cast("dict[str, Any]", copy.__dict__).pop("bound", None)
        return copy

    def at(self, params: Mapping[str, Any]) -> BoundPoint:
        """Return the point with these values."""
        return self.bound.point(self.bound.bind(params))

    @property
    def trained_base(self) -> Trained:
        """The training before the space's values are set, by whichever trainer."""
        return self.bound.bind({})

    @property
    def base(self) -> TrainingConfig:
        """The training configuration before the space's values are set; only of a sweep that our trainer trains."""
        return self.bind({})

    def bind(self, params: Mapping[str, Any]) -> TrainingConfig:
        """Return the training configuration with these values; only of a sweep that our trainer trains."""
        training = self.bound.bind(params)
        assert isinstance(training, TrainingConfig), "a program of one's own has no TrainingConfig"
        return training

    @property
    def chosen(self) -> int:
        """Number of configs that tuning chooses: those that are confirmed, or the best one."""
        return self.seeds.confirm.top_k if self.seeds.confirm else 1

    def action(self, sign: str) -> Action:
        """Return what is done with a run that shows a sign of ill health."""
        return getattr(self.health, sign.lower()) or ("warn" if self.early_stopping is None else "stop")

    @property
    def drops(self) -> bool:
        """True if configs may be dropped before all of their tune trials have ended: by a rule, or a sign of health."""
        return self.early_stopping is not None or self.health.drops

    @property
    def comparators(self) -> int:
        """Number of configs that the sweep begins with to compare others with; two of them may be the same."""
        own = self.trainer is not None and self.trainer.baseline is not None
        return self.baselines.ppo_clip + self.baselines.dapo + own

    @property
    def probes(self) -> Literal["off", "first", "only"]:
        """Place of the cost probe in this sweep: none, before the first trial, or instead of all trials."""
        return self.probe or ("first" if self.resources.gpus and self.trainer is None else "off")

    @property
    def only_probes(self) -> bool:
        """True if the sweep ends with its cost probe, so that it never has results."""
        return self.probes == "only"

    @property
    def digest(self) -> str:
        """Hash of the canonical spec."""
        return digest(self.model_dump(mode="json"))
