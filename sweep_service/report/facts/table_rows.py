"""Trials and configs as rows of the report's tables."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import fmean

from sweep_service.health.run_health import COLUMNS, Health, value_at
from sweep_service.report.facts.measured_models import MeasuredModel
from sweep_service.report.facts.report_inputs import ReportInputs
from sweep_service.report.model import ConfigRow, SeedValue, StageResult, TrialRow
from sweep_service.report.statistics.differences import mean_interval
from sweep_service.sweep.endings import MEANINGS
from sweep_service.sweep.labels import parameters
from sweep_service.sweep.links import run_link
from sweep_service.sweep.records import Config, Role, Stage, Trial, TrialState


def trial_row(
    trial: Trial,
    label: str,
    objective: float | None,
    inputs: ReportInputs,
    health: Health,
    ruined: bool,
    model: MeasuredModel | None,
) -> TrialRow:
    """Return one trial as a row; `model` is its last one, if benchmarks were to measure it."""
    by_itself = trial.state is TrialState.FAILED and (trial.ending is None or MEANINGS[trial.ending].is_own_fault)
    ended = objective is None and trial.state.is_over
    return TrialRow(
        **trial.model_dump(include=set(TrialRow.model_fields)),
        failed_by_itself=ended and by_itself,
        missing=ended and not by_itself and trial.attempts > 0,
        label=label,
        objective=objective,
        ruined=ruined,
        **{name: getattr(health, name) for name in COLUMNS},
        evaluation_se=None if objective is None else evaluation_se(trial, inputs),
        tokens=value_at(inputs.present(trial.id, "tokens/total").values, -1),
        seconds=trial.held_s if trial.state.is_over and trial.held_s else None,
        mlflow_url=run_link(inputs.mlflow_url, trial.mlflow_run_id),
        benchmarks={
            name: score.avg_at_k
            for name, score in (model.scores if model else {}).items()
            if score.avg_at_k is not None
        },
    )


def evaluation_se(trial: Trial, inputs: ReportInputs) -> float | None:
    """Return the standard error that sampling at evaluations gives a trial's objective; None where it is not known."""
    objective = inputs.sweep.spec.objective
    if trial.state is TrialState.DIVERGED:
        return None
    errors = inputs.present(trial.id, f"{inputs.measures[trial.stage]}_se").values
    errors = errors[-objective.last :]  # independent, since each evaluation samples anew
    return math.sqrt(float(errors @ errors)) / len(errors) if errors.size else None


def config_row(config: Config, label: str, trials: Sequence[TrialRow], varied: Sequence[str]) -> ConfigRow:
    """Return one config as a row, summed up over its trials."""
    params = parameters(config)
    whole = [trial for trial in trials if trial.state is TrialState.SUCCEEDED] or trials
    return ConfigRow(
        id=config.id,
        number=config.number,
        label=label,
        roles=list(config.roles),
        loss=str(config.training.get("loss", {}).get("name", "")),
        params={name: params.get(name) for name in varied},
        tune=_stage(trials, Stage.TUNE),
        confirm=_stage(trials, Stage.CONFIRM),
        entropy_start=_mean([trial.entropy_start for trial in trials]),
        entropy_end=_mean([trial.entropy_end for trial in trials]),
        reward_peak=_mean([trial.reward_peak for trial in trials]),
        reward_final=_mean([trial.reward_final for trial in trials]),
        ruined=sum(trial.ruined or trial.failed_by_itself for trial in trials),
        reward_collapsed=sum(trial.reward_collapsed for trial in trials),
        entropy_collapsed=sum(trial.entropy_collapsed for trial in trials),
        entropy_kept=_mean([trial.entropy_kept for trial in whole]),
        length_start=_mean([trial.length_start for trial in whole]),
        length_end=_mean([trial.length_end for trial in whole]),
        evaluation_se=_root_mean_square([trial.evaluation_se for trial in trials]),
        tokens=_mean([trial.tokens for trial in whole]),
        hours=_mean([None if trial.seconds is None else trial.seconds / 3600 for trial in whole]),
        states=dict(sorted(Counter(trial.state for trial in trials).items())),
    )


def _stage(trials: Sequence[TrialRow], stage: Stage) -> StageResult | None:
    """Return the objective over one stage's seeds; None where the stage gave no value."""
    own = [trial for trial in trials if trial.stage is stage]
    seeds = [
        SeedValue(seed=trial.seed, trial_id=trial.id, value=trial.objective)
        for trial in sorted(own, key=lambda trial: trial.seed)
        if trial.objective is not None
    ]
    if not seeds:
        return None
    result = mean_interval([seed.value for seed in seeds])
    # selection voids an interval of the tune stage, and a spread with ruins in it tells little of how often they come
    known = stage is Stage.CONFIRM and not any(trial.ruined for trial in own)
    low, high = (result.low, result.high) if known else (None, None)
    return StageResult(n=len(seeds), planned=len(own), mean=result.mean, sd=result.sd, low=low, high=high, seeds=seeds)


def _mean(values: Sequence[float | None]) -> float | None:
    present = [value for value in values if value is not None]
    return fmean(present) if present else None


def _root_mean_square(values: Sequence[float | None]) -> float | None:
    squares = _mean([None if value is None else value * value for value in values])
    return None if squares is None else math.sqrt(squares)


def in_order(rows: Mapping[str, ConfigRow]) -> list[ConfigRow]:
    """Order configs: confirmed ones, best first; then by tune mean the others, those dropped early after them.

    Last come those without a result.
    """

    def rank(row: ConfigRow) -> tuple[int, float, int]:
        if row.confirm is not None:
            return 0, -row.confirm.mean, row.number
        if row.tune is not None:
            return 2 if TrialState.EARLY_STOPPED in row.states else 1, -row.tune.mean, row.number
        return 3, 0.0, row.number

    return sorted(rows.values(), key=rank)


def is_comparator(row: ConfigRow) -> bool:
    """Return True if the config is only there to be compared with."""
    return Role.SPACE not in row.roles
