"""The configs and trials that follow from a spec, and an estimate of their cost. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from pydantic import Field

from sweep_service.errors import SpecError
from sweep_service.sweep.baselines import clip_higher, clipped, matched_count, rough_count
from sweep_service.sweep.benchmark_cost import BenchmarksPlan, benchmarks_plan
from sweep_service.sweep.budget import (
    BudgetPlan,
    Spent,
    StageCounts,
    WorkTime,
    budget_plan,
    budget_warnings,
    kept_for_later,
    room,
)
from sweep_service.sweep.cost import Measured, SweepCost, sweep_cost
from sweep_service.sweep.labels import params_texts, telling_params
from sweep_service.sweep.plan_warnings import plan_warnings
from sweep_service.sweep.points import BoundPoint
from sweep_service.sweep.records import Config, Record, Role, Stage, Trial, TrialState, new_id
from sweep_service.sweep.spec import SweepSpec
from trainers.config import TrainingConfig
from trainers.tasks.data_record import DataRecord, Prompt


class StoppingForecast(Record):
    """What a rule of early stopping would save and lose, by replays of recorded runs."""

    rule: str = Field(description="none: every config is trained on every tune seed.")
    hours: float = Field(description="Of all trials, on average over the replays.")
    most_hours: float = Field(description="Of all trials, in the replay that took most.")
    loses_best: float = Field(
        description="Share of the replays in which all configs within objective.relevant of the best were dropped."
    )


class StoppingForecasts(Record):
    """What rules of early stopping would save and lose in this sweep, or why nobody can tell."""

    basis: str
    rules: tuple[StoppingForecast, ...] = ()


class SweepPlan(Record):
    """Plan of a sweep. Hours are an estimate, not a promise."""

    name: str
    spec_digest: str
    configs: int = Field(description="Configs of the tune stage, baselines included.")
    baselines: list[str] = Field(description="Roles of the baselines that are added.")
    first_configs: list[dict[str, Any]] = Field(
        description="Parameters of the first configs, and other settings in which they differ from each other."
    )
    first_labels: list[str] = Field(description="Differences of each from the others, in words.")
    first_roles: list[list[Role]] = Field(description="Roles of the first configs; a baseline may be a point besides.")
    trials: dict[str, int] = Field(description="Trials by stage, at most.")
    steps_per_trial: int
    hours: float = Field(description="CPU-hours, or GPU-hours if a trial has GPUs.")
    hours_unit: str
    wall_hours: float | None = Field(description="At max_parallel trials at a time, if that is given.")
    seconds_per_step: float
    basis: str = Field(description="Source of seconds_per_step.")
    cost: SweepCost | None = Field(default=None, description="At full length, if a probe has measured it.")
    budget: BudgetPlan | None = Field(default=None, description="With GPUs and budget.max_trial_hours.")
    benchmarks: BenchmarksPlan | None = Field(default=None, description="Their cost beside the training.")
    early_stopping: StoppingForecasts | None = Field(default=None, description="With a rule of early stopping.")
    prompts: tuple[Prompt, ...] = Field(
        default=(), description="Three of the base configuration, or of the first point of a space of data or models."
    )
    data: DataRecord | None = Field(default=None, description="Of a pretrained model: the problems, counted.")
    unchecked: list[str] = Field(default=[], description="Reasons why data could not be read here; trials read it.")
    warnings: list[str]


def first_records(spec: SweepSpec, sweep_id: str) -> tuple[list[Config], list[Trial]]:
    """Return the configs and tune trials that a sweep begins with: the baselines, and for a grid all its points.

    Trials go seed by seed, so that every config has its first seed before any has its second.
    """
    configs = _configs(first_points(spec, baselines(spec)), sweep_id)
    return configs, make_trials(spec, sweep_id, configs, Stage.TUNE, first_number=0)


RolePoint = tuple[Role, BoundPoint]
"""A point of a sweep, and why it is in it."""


def baselines(spec: SweepSpec) -> list[RolePoint]:
    """Return the baselines that a sweep has from the start."""
    compared: list[RolePoint] = []
    if spec.trainer is not None and spec.trainer.baseline is not None:
        compared.append((Role.BASELINE, spec.at(spec.trainer.baseline)))
    if spec.baselines.ppo_clip:
        compared.append((Role.BASELINE, spec.bound.point(clipped(spec.base))))
    if spec.baselines.dapo:
        compared.append((Role.DAPO, spec.bound.point(clip_higher(spec.base))))
    return compared


def first_points(spec: SweepSpec, compared: Sequence[RolePoint], most: int | None = None) -> Iterator[RolePoint]:
    """Yield the points that a sweep begins with, the baselines first; of a grid all its points, or only so many."""
    yield from compared
    if spec.search.is_grid:
        yield from ((Role.SPACE, point) for point in _in_space(spec, compared))
        yield from ((Role.SPACE, spec.at(params)) for params in islice(spec.space.grid(), most))


def _in_space(spec: SweepSpec, compared: Sequence[RolePoint]) -> list[BoundPoint]:
    """Return those of the baselines that are points of the space, too."""
    different = {point.id: point for _, point in compared}.values()
    return [point for point in different if spec.space.contains(point.params) and spec.at(point.params).id == point.id]


def _configs(points: Iterable[RolePoint], sweep_id: str) -> list[Config]:
    configs: dict[str, Config] = {}
    for role, point in points:
        add_config(configs, sweep_id, role, point)
    return list(configs.values())


def new_points(spec: SweepSpec, sweep_id: str, configs: Sequence[Config]) -> list[Config]:
    """Return the points of a grid that a sweep lacks: configs that are new, or have this role besides.

    There are some once the sweep was given more values. New configs are numbered after those of before.
    """
    points = sum(Role.SPACE in config.roles for config in configs)
    if not spec.search.is_grid or points >= spec.space.grid_size():
        return []
    present = {config.id: config for config in configs}
    by_id = dict(present)
    for params in spec.space.grid():
        add_config(by_id, sweep_id, Role.SPACE, spec.at(params))
    return [config for config in by_id.values() if config != present.get(config.id)]


def add_config(configs: dict[str, Config], sweep_id: str, role: Role, point: BoundPoint) -> Config:
    """Add a config to `configs` (by id, in order), or the role to the config that is already there."""
    config = configs.get(point.id)
    if config is None:
        config = Config(
            id=point.id,
            sweep_id=sweep_id,
            number=len(configs),
            roles=(role,),
            params=point.params,
            training=point.content,
        )
    elif role not in config.roles:
        config = config.model_copy(update={"roles": (*config.roles, role)})
    configs[point.id] = config
    return config


def make_trials(
    spec: SweepSpec, sweep_id: str, configs: Iterable[Config], stage: Stage, first_number: int
) -> list[Trial]:
    """Return a trial for every config and seed of a stage, seed by seed."""
    seeds = spec.seeds.tune if stage is Stage.TUNE else (spec.seeds.confirm.seeds if spec.seeds.confirm else ())
    pairs = [(seed, config) for seed in seeds for config in configs]
    return [
        Trial(
            id=new_id("trl"),
            sweep_id=sweep_id,
            config_id=config.id,
            seed=seed,
            stage=stage,
            number=first_number + index,
            state=TrialState.PENDING,
            threads=max(1, int(spec.resources.cpus)),
            total_steps=config.training["steps"],
        )
        for index, (seed, config) in enumerate(pairs)
    ]


def confirm_records(
    spec: SweepSpec, sweep_id: str, configs: Sequence[Config], chosen: Sequence[Config], first_number: int
) -> tuple[list[Config], list[Trial]]:
    """Return the confirm stage: the chosen configs, the baselines, and each chosen config's matched baseline.

    A matched baseline that is there already, as a baseline, a chosen config or that of another one, is trained once.

    Args:
        configs: all configs of the sweep so far.
        chosen: the best configs, best first.
        first_number: number of the first new trial.
    Returns: configs that are new or have a new role, and the trials.
    """
    by_id = {config.id: config for config in configs}
    baseline = [config for config in configs if {Role.BASELINE, Role.DAPO} & set(config.roles)]
    trainings = [TrainingConfig.model_validate(config.training) for config in chosen if spec.baselines.matched]
    points = [spec.bound.point(clipped(training)) for training in trainings]
    matched = [add_config(by_id, sweep_id, Role.MATCHED, point) for point in points]
    confirmed = {config.id: config for config in (*chosen, *baseline, *matched)}
    changed = {config.id: config for config in matched}
    return [*changed.values()], make_trials(spec, sweep_id, confirmed.values(), Stage.CONFIRM, first_number)


def stage_counts(spec: SweepSpec, compared: Sequence[RolePoint] | None = None) -> StageCounts:
    """Return how many trials a sweep has at most, without making them: the points of a space all differ.

    Args:
        compared: its `baselines`, where the caller has them already.
    """
    compared = baselines(spec) if compared is None else compared
    different = {point.id: point.training for _, point in compared}
    configs = contenders = most_points(spec)
    if tries_all_points(spec):
        in_space = {point.id for point in _in_space(spec, compared)}
        contenders -= any(role is Role.BASELINE and point.id in in_space for role, point in compared)
        configs -= len(in_space)
    tune = (len(different) + configs) * len(spec.seeds.tune)
    if spec.seeds.confirm is None:
        return StageCounts(tune, 0)
    chosen = min(spec.seeds.confirm.top_k, contenders)
    arms = chosen + len(different) + matched_count(spec, list(different.values()), chosen)
    return StageCounts(tune, arms * len(spec.seeds.confirm.seeds))


def droppable(spec: SweepSpec) -> int:
    """Return how many points a rule of early stopping may choose from: those that are no baseline."""
    points = most_points(spec)
    return points - len(_in_space(spec, baselines(spec))) if tries_all_points(spec) else points


def trials_to_come(planned: StageCounts, counts: Mapping[tuple[Stage, TrialState], int]) -> int:
    """Return how many trials a sweep that goes on makes later, at most: proposals, and those of its confirm stage.

    The confirm stage of a sweep that was given more may grow until its tune stage has ended anew.

    Args:
        counts: number of its trials by stage and state.
    """
    tune = sum(number for (stage, _), number in counts.items() if stage is Stage.TUNE)
    confirm = sum(counts.values()) - tune
    tunes = any(number and stage is Stage.TUNE and not state.is_over for (stage, state), number in counts.items())
    of_confirm = max(0, planned.confirm - confirm) if tunes or not confirm else 0
    return max(0, planned.tune - tune) + of_confirm


def tuning_had_room(spec: SweepSpec, trials: Iterable[Trial], probe_gpu_hours: float) -> bool:
    """Say whether one more config fitted the budget when the tune stage ended.

    Otherwise the budget ended the stage, and what the confirm stage did not need proposes nothing more.

    Args:
        trials: all trials of the sweep.
    """
    if spec.budget.max_gpu_hours is None:
        return True
    tune = [WorkTime(trial.state, trial.held_s) for trial in trials if trial.stage is Stage.TUNE and trial.attempts]
    left = room(spec, Spent(tune, probe_gpu_hours), kept_for_later(spec, stage_counts(spec)))
    return left is None or left >= len(spec.seeds.tune)


MAX_TRIALS: Final = 3000
"""Largest number of trials of one sweep: three times as many as the largest report measured, `bench/report_scale.py`.

Each is a training of minutes or hours, and a row that requests, pages and the report read.
"""


def too_many_trials(spec: SweepSpec) -> list[SpecError]:
    """Refuse a sweep with more trials than anybody can wait for, before one of them is made."""
    configs, seeds, confirm = most_points(spec), spec.seeds.tune, spec.seeds.confirm
    compared = spec.comparators
    tune = (configs + compared) * len(seeds)
    chosen = min(confirm.top_k, configs) if confirm else 0
    arms = chosen + compared + rough_count(spec, chosen)
    trials = tune + arms * len(confirm.seeds if confirm else ())
    if trials <= MAX_TRIALS:
        return []
    text = f"{configs + compared} configs x {len(seeds)} tune seeds"
    if confirm:
        text += f" and {arms} configs x {len(confirm.seeds)} confirm seeds"
    remedy = "list fewer seeds, vary fewer values, or make several sweeps: `sweeps compare` joins them"
    return [SpecError("/seeds", f"{text} are {trials} trials, more than {MAX_TRIALS}; {remedy}")]


def most_points(spec: SweepSpec) -> int:
    """Return how many configs a sweep can choose from: the points of its space, or those that are drawn of more."""
    size, drawn = spec.space.size, spec.search.num_configs
    return min(number for number in (size, drawn) if number is not None)


def tries_all_points(spec: SweepSpec) -> bool:
    """True if a sweep tries every point of its space, by whichever strategy."""
    return most_points(spec) == spec.space.size


def too_many_confirmed(spec: SweepSpec) -> list[SpecError]:
    """Refuse to confirm more configs than a sweep can have: whoever asks for it means another sweep."""
    confirm, most = spec.seeds.confirm, most_points(spec)
    if confirm is None or confirm.top_k <= most:
        return []
    configs = "one config" if most == 1 else f"{most} configs"
    more = "more values in space" if tries_all_points(spec) else "a larger search.num_configs"
    text = f"{confirm.top_k} is more than the sweep can confirm: it has {configs} to choose from"
    return [SpecError("/seeds/confirm/top_k", f"{text}; give at most {most}, or {more} as well")]


def make_plan(
    spec: SweepSpec,
    seconds_per_step: float | None,
    measured: Measured | None = None,
    problems: Mapping[str, int] | None = None,
) -> SweepPlan:
    """Say what a sweep would run and cost.

    Args:
        seconds_per_step: measured on earlier trials of the same shape, the best basis; None without such trials.
        measured: figures of a probe of the same shape; without both, a shipped guess is used.
        problems: number of problems of each benchmark of the spec; None leaves their cost out.
    """
    compared = baselines(spec)
    tune, confirm = counts = stage_counts(spec, compared)
    first = list(first_points(spec, compared, None if measured else _SHOWN))
    shown = _configs(first, "plan")[:_SHOWN]
    told, labels = telling_params(shown), params_texts(shown)
    trainings = {point.id: point.training for _, point in first}
    cost = sweep_cost(spec, measured, [*trainings.values()], counts) if measured else None
    trial_s, estimate = _estimate(spec, counts, seconds_per_step, cost)
    warnings = plan_warnings(spec, measured, guessed=seconds_per_step is None and cost is None)
    return SweepPlan(
        name=spec.name,
        spec_digest=spec.digest,
        configs=tune // len(spec.seeds.tune),
        baselines=[role for role, _ in compared],
        first_configs=[told[config.id] for config in shown],
        first_labels=[labels[config.id] for config in shown],
        first_roles=[list(config.roles) for config in shown],
        trials={"tune": tune, "confirm": confirm},
        steps_per_trial=spec.trained_base.steps,
        hours_unit="GPU-hours" if spec.resources.gpus else "CPU-hours",
        cost=cost,
        budget=budget_plan(spec, counts),
        benchmarks=None if problems is None else benchmarks_plan(spec, counts, problems, measured),
        warnings=warnings + budget_warnings(spec, counts, trial_s),
        **estimate,
    )


def _estimate(
    spec: SweepSpec, counts: StageCounts, seconds_per_step: float | None, cost: SweepCost | None
) -> tuple[float, dict[str, Any]]:
    """Return the seconds of a trial and a plan's hours, by earlier trials, a probe, or the shipped guess."""
    if seconds_per_step is None and cost is not None:
        trial_s = cost.trial_hours * 3600
        hours = {"hours": cost.hours, "wall_hours": cost.wall_hours}
        return trial_s, hours | {"seconds_per_step": trial_s / spec.trained_base.steps, "basis": cost.basis}
    basis = "earlier trials of the same shape" if seconds_per_step else "the shipped guess for the tiny policy"
    if spec.trainer is not None:
        basis = "earlier trials of this command" if seconds_per_step else "no trial of this command yet: a mere guess"
    per_step = seconds_per_step or _GUESSED_SECONDS_PER_STEP
    slots, parallel = spec.resources.gpus or spec.resources.cpus, spec.resources.max_parallel
    trial_s = per_step * spec.trained_base.steps + _START_S
    all_hours = sum(counts) * trial_s / 3600
    hours = {"hours": all_hours * slots, "wall_hours": all_hours / parallel if parallel else None}
    return trial_s, hours | {"seconds_per_step": per_step, "basis": basis}


_SHOWN = 20
"""Number of configs that a plan shows."""
_GUESSED_SECONDS_PER_STEP = 0.04
_START_S = 6.0
