"""Whole sweeps drawn from a world: planned, trained, chosen and confirmed as the runner does it, with their report."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from bench.worlds import BETAS, RATES, Arms, Floats, Numbers, Rates, Results, World
from sweep_service.report import Report
from sweep_service.report.build import build
from sweep_service.report.facts.report_inputs import ReportInputs
from sweep_service.report.model import ConfigRow
from sweep_service.runner.stages import next_records
from sweep_service.stopping.table import judge
from sweep_service.sweep.endings import Ending
from sweep_service.sweep.plan import first_records
from sweep_service.sweep.records import (
    Config,
    Curve,
    DesiredState,
    Judgement,
    ProblemCounts,
    Sweep,
    SweepState,
    Trial,
    TrialState,
)
from sweep_service.sweep.series import EVALUATION, TrialSeries
from sweep_service.sweep.spec import SweepSpec
from trainers.evaluation.problem_parts import part_metric, split_problems

_STEPS: Final = 16
_UPDATES: Final = np.arange(1, 9)
_FALLEN: Final = np.repeat([0.5, 0.1], 4)  # the reward of a trial that collapses: two windows of the shortest length


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    name: str
    world: World
    seeds: int
    differ: bool
    top_k: int = 2
    tune_seeds: int = 2
    rule: str | None = None
    """Rule of early stopping: one that compares all configs."""


@lru_cache(maxsize=64)
def _start(
    points: int | None, seeds: int, top_k: int, tune_seeds: int, rule: str | None
) -> tuple[SweepSpec, tuple[Config, ...], tuple[Trial, ...]]:
    """A sweep's spec with the configs and tune trials that it begins with; without a number of points, over rates."""
    other, betas = {"optimizer.learning_rate": list(RATES)}, [*BETAS]
    if points is not None and points % len(BETAS):
        other, betas = {}, [(index + 1) / (points + 1) for index in range(points)]
    elif points is not None:
        other = {"loss.beta2": [(index + 1) / 8 for index in range(points // len(BETAS))]}
    spec = SweepSpec.model_validate(
        {
            "name": "simulated",
            "training": {
                "loss": {"name": "ce_gppo"},
                "optimizer": {"learning_rate": RATES[0]},
                "steps": _STEPS,
            },
            "space": {"loss.beta1": betas, **other},
            "seeds": {
                "tune": list(range(tune_seeds)),
                "confirm": {"top_k": top_k, "seeds": list(range(10, 10 + seeds))},
            },
            "early_stopping": rule,
        }
    )
    configs, trials = first_records(spec, "swp_simulated")
    return spec, tuple(configs), tuple(trials)


def simulate(row: Row, rng: np.random.Generator) -> tuple[Report, Arms]:
    """Run one sweep as the runner does, and build its report."""
    inputs, arms = run_sweep(row, rng)
    return build(inputs), arms


def run_sweep(row: Row, rng: np.random.Generator) -> tuple[ReportInputs, Arms]:
    """Run one sweep as the runner does."""
    arms = row.world.deal(rng)
    points = None if isinstance(row.world, Rates) else arms.points
    spec, configs, planned = _start(points, row.seeds, row.top_k, row.tune_seeds, row.rule)
    sweep = Sweep(
        id="swp_simulated",
        name=spec.name,
        state=SweepState.FINALIZING,
        desired_state=DesiredState.RUN,
        created_at=0.0,
        spec=spec,
        spec_digest="",
    )
    trials, series, counted = _train(arms, configs, planned, rng)
    curves = [curve for trial in trials if trial.id in series for curve in _curves(trial, series[trial.id])]
    if row.rule is not None:
        configs, trials = _drop(spec, configs, trials, curves)
        kept = {trial.id for trial in trials if trial.state is not TrialState.EARLY_STOPPED}
        series = {trial_id: own for trial_id, own in series.items() if trial_id in kept}
        curves, counted = ([one for one in rows if one.trial_id in kept] for rows in (curves, counted))
    confirm = next_records(sweep, configs, trials, curves) or ([], [])  # nothing if every trial crashed
    by_id = {config.id: config for config in (*configs, *confirm[0])}
    more, more_series, counts = _train(arms, [*by_id.values()], confirm[1], rng)
    inputs = ReportInputs(
        sweep=sweep,
        configs=tuple(by_id.values()),
        trials=(*trials, *more),
        series=series | more_series,
        problem_counts=(*counted, *counts),
    )
    return inputs, arms


def _drop(
    spec: SweepSpec, configs: Sequence[Config], trials: Sequence[Trial], curves: Sequence[Curve]
) -> tuple[tuple[Config, ...], list[Trial]]:
    """Let the rule of a sweep judge after each tune seed, as if that were trained before the next one."""
    judged: list[Judgement] = []
    for seeds in range(1, len(spec.seeds.tune)):
        over = {*spec.seeds.tune[:seeds]}
        seen = [one if one.seed in over else one.model_copy(update={"state": TrialState.PENDING}) for one in trials]
        judged += judge(spec, configs, seen, [curve for curve in curves if curve.seed in over], judged)
    dropped = {one.config_id: one for one in judged if one.dropped}
    seeds_of = {config_id: {*spec.seeds.tune[: one.mark]} for config_id, one in dropped.items()}
    ended = {"state": TrialState.EARLY_STOPPED, "ending": Ending.EARLY_STOPPED, "step": 0, "attempts": 0}
    return (
        tuple(one.model_copy(update={"dropped": dropped.get(one.id)}) for one in configs),
        [
            one.model_copy(update=ended) if one.seed not in seeds_of.get(one.config_id, {one.seed}) else one
            for one in trials
        ],
    )


def _train(
    arms: Arms, configs: Sequence[Config], planned: Sequence[Trial], rng: np.random.Generator
) -> tuple[list[Trial], dict[str, TrialSeries], list[ProblemCounts]]:
    """Give trials of one stage, which go seed by seed, their results."""
    if not planned:
        return [], {}, []
    places = {config.id: arm_of(config, arms) for config in configs}
    which = [places[config_id] for config_id in dict.fromkeys(trial.config_id for trial in planned)]
    found = arms.train(rng, which, len(planned) // len(which))
    values, collapsed = found.values_AS.T.ravel().tolist(), found.collapsed_AS.T.ravel().tolist()
    trials: list[Trial] = []
    series: dict[str, TrialSeries] = {}
    counts: list[ProblemCounts] = []
    rights = [None] * len(planned) if found.right_ASP is None else [*np.concatenate([*found.right_ASP.swapaxes(0, 1)])]
    for trial, value, fell, right_P in zip(planned, values, collapsed, rights, strict=True):
        failed = math.isnan(value)
        state = TrialState.FAILED if failed else TrialState.SUCCEEDED
        ended = {
            "state": state,
            "step": trial.total_steps,
            "attempts": 1,
            "ending": found.ending if failed else Ending.SUCCEEDED,
        }
        trials.append(trial.model_copy(update=ended))
        if not failed:
            metrics = {"eval/avg_at_k": np.array([value])}
            if right_P is not None:
                metrics |= _of_parts(right_P / found.samples, found.names)
                counts.append(_counts(trial.id, right_P, found))
            if fell:
                metrics = {name: _fallen(float(values[-1])) for name, values in metrics.items()}
                metrics["reward/mean"] = _FALLEN
            evaluations = len(metrics["eval/avg_at_k"])
            series[trial.id] = TrialSeries(
                trial_id=trial.id,
                steps=_UPDATES,
                eval_steps=np.linspace(_STEPS / evaluations, _STEPS, evaluations),
                eval_times=np.zeros(evaluations),
                metrics=metrics,
            )
    return trials, series, counts


def _fallen(value: float) -> Floats:
    """Evaluations that end with a value, far below the first."""
    return np.array([max(3 * value, value + 0.3), value, value, value])


def _of_parts(rates_P: Floats, names: tuple[str, ...]) -> dict[str, Floats]:
    """The means over each half of the problems, as trainers record them."""
    return {
        part_metric("eval/avg_at_k", part): rates_P[indices].mean(keepdims=True)
        for part, indices in _halves(names).items()
    }


_halves = lru_cache(maxsize=64)(split_problems)


def _counts(trial_id: str, right_P: Numbers, found: Results) -> ProblemCounts:
    """One evaluation's counts. They are not validated, which would take longer than everything else."""
    return ProblemCounts.model_construct(
        trial_id=trial_id,
        step=_STEPS,
        names=found.names,
        judged=(found.samples,) * len(right_P),
        right=tuple(right_P.tolist()),
    )


def arm_of(config: Config | ConfigRow, arms: Arms) -> int:
    """The place of a config among the arms: a sweep begins with its baseline and its DAPO arm, then has its points."""
    if config.number < 2:
        return arms.points + config.number
    if config.number < arms.points + 2:
        return config.number - 2
    return arms.points + 1 + RATES.index(config.params["optimizer.learning_rate"])


def _curves(trial: Trial, series: TrialSeries) -> list[Curve]:
    """A trial's evaluations as the runner reads them."""
    return [
        Curve(
            trial_id=trial.id,
            config_id=trial.config_id,
            seed=trial.seed,
            stage=trial.stage,
            key=key,
            steps=series.eval_steps.tolist(),
            times=series.eval_times.tolist(),
            values=values.tolist(),
        )
        for key, values in series.metrics.items()
        if key.startswith(EVALUATION)
    ]
