"""Sweeps beside each other: configs that are in both, with the differences of their objectives. Pure."""

import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sweep_service.report.comparison_model import (
    ComparedSetting,
    ComparedSweep,
    ConfigDifference,
    ConfigValues,
    SharedConfig,
    SweepsComparison,
)
from sweep_service.report.statistics.critical_values import CONFIDENCE, student_critical
from sweep_service.report.statistics.differences import MIN_SEEDS, Arm, Pairs, mean_interval
from sweep_service.sweep.labels import telling_params
from sweep_service.sweep.own_trainer import settings_of_base
from sweep_service.sweep.records import Config, Sweep


@dataclass(frozen=True)
class SweepResults:
    """One sweep with the objectives of its trials."""

    sweep: Sweep
    configs: Sequence[Config]
    values: Mapping[str, Mapping[int, float]]
    """Objective by config id and seed, of both stages, whose seeds differ; without ruined runs, if they are known."""
    ruined: Mapping[str, int] | None
    """Number of ruined runs by config id; None if no report says which ones were."""


def compare_sweeps(compared: Sequence[SweepResults]) -> SweepsComparison:
    """Join the configs that the first sweep shares with any other, and compare each with the first.

    Args:
        compared: at least two sweeps, in the order in which they are shown.
    """
    first, *others = compared
    elsewhere = {config.id for other in others for config in other.configs}
    both = [config for config in first.configs if config.id in elsewhere]
    told = telling_params(both)

    def differences(level: float) -> dict[str, list[ConfigDifference]]:
        return {config.id: [_difference(first, other, config.id, level) for other in others] for config in both}

    pairs = sum(difference.low is not None for row in differences(CONFIDENCE).values() for difference in row)
    by_config = differences(1 - (1 - CONFIDENCE) / max(1, pairs))
    shared = [
        SharedConfig(
            config_id=config.id,
            params=told[config.id],
            values=[_values(results, config.id) for results in compared],
            differences=by_config[config.id],
        )
        for config in both
    ]
    return SweepsComparison(
        sweeps=[_head(results, by_config) for results in compared],
        settings=_settings(compared),
        shared=shared,
        notes=_notes(compared, shared),
        method=_method(pairs),
    )


def _head(results: SweepResults, shared: Container[str]) -> ComparedSweep:
    sweep, objective = results.sweep, results.sweep.spec.objective
    return ComparedSweep(
        **sweep.model_dump(include={"id", "name", "spec_digest"}),
        state=sweep.state,
        objective=f"{objective.metric}, mean of the last {objective.last}",
        configs=len(results.configs),
        only_here=sum(config.id not in shared for config in results.configs),
    )


def _values(results: SweepResults, config_id: str) -> ConfigValues:
    data, ruined = [*results.values.get(config_id, {}).values()], (results.ruined or {}).get(config_id, 0)
    if not data:
        return ConfigValues(n=0, mean=None, sd=None, ruined=ruined)
    found = mean_interval(data)
    return ConfigValues(n=found.n, mean=found.mean, sd=found.sd, ruined=ruined)


def _difference(first: SweepResults, other: SweepResults, config_id: str, level: float) -> ConfigDifference:
    """Compare seed by seed with at least `MIN_SEEDS` common seeds, else compare the means.

    Below `MIN_SEEDS` seeds, and where nothing varies, the spread is unknown, so there is no interval.
    """
    before, after = first.values.get(config_id, {}), other.values.get(config_id, {})
    if not before or not after:
        return ConfigDifference(sweep_id=other.sweep.id, paired=False, seeds=0)
    common = sorted(before.keys() & after.keys())
    repeated = len(common) if all(before[seed] == after[seed] for seed in common) else 0
    if paired := len(common) >= MIN_SEEDS:
        found = Pairs([Arm("after", after), Arm("before", before)]).difference("after", "before")
        estimate, seeds = found.difference, found.num_seeds
        half = found.parts and found.parts.upper_width(level)
    else:
        sides = [np.array(list(values.values())) for values in (after, before)]
        estimate, seeds = float(sides[0].mean() - sides[1].mean()), min(len(side) for side in sides)
        error, df = _welch(sides) if seeds >= MIN_SEEDS else (0.0, 0.0)
        half = student_critical(df, level) * error if error else None
    return ConfigDifference(
        sweep_id=other.sweep.id,
        paired=paired,
        seeds=seeds,
        difference=estimate,
        low=None if half is None else estimate - half,
        high=None if half is None else estimate + half,
        repeated=repeated,
    )


def _welch(sides: Sequence[Any]) -> tuple[float, float]:
    """Return the standard error of the difference of two means, and its degrees of freedom."""
    parts = [float(side.var(ddof=1)) / len(side) for side in sides]
    total = sum(parts)
    if total == 0:
        return 0.0, 1.0
    df = total**2 / sum(part**2 / (len(side) - 1) for part, side in zip(parts, sides, strict=True))
    return math.sqrt(total), df


def _notes(compared: Sequence[SweepResults], shared: Sequence[SharedConfig]) -> list[str]:
    """Return notes that a reader must know before reading the differences."""
    notes: list[str] = []
    first, *others = compared
    for other in others:
        if other.sweep.spec.objective != first.sweep.spec.objective:
            notes.append(f"{other.sweep.name} ranks by another objective: its values are not on the same scale.")
    if not shared:
        notes.append("No config is in both: a config is the same only if every training parameter but the seed is.")
    for results in compared:
        sweep = results.sweep
        if results.ruined is None:
            notes.append(f"{sweep.name} has no report that says which runs were ruined: its values count them.")
        if not sweep.state.is_over:
            notes.append(f"{sweep.name} ({sweep.id}) is {sweep.state.lower()}: its values may still change.")
    return notes


def _settings(compared: Sequence[SweepResults]) -> list[ComparedSetting]:
    """Return the settings of the base trainings in which the sweeps differ."""
    trainings = [_flat(settings_of_base(results.sweep.spec.trained_base)) for results in compared]
    names = sorted({name for training in trainings for name in training})
    settings = [ComparedSetting(name=name, values=[training.get(name) for training in trainings]) for name in names]
    return [setting for setting in settings if any(value != setting.values[0] for value in setting.values)]


def _flat(value: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, item in value.items():
        found |= _flat(item, f"{prefix}{name}.") if isinstance(item, dict) else {prefix + name: item}
    return found


def _method(pairs: int) -> list[str]:
    lines = [
        "A config is the same in two sweeps if every training parameter but the seed is the same.",
        "Its value is the mean of the objective over all validation problems and all its seeds, tune and confirm, but "
        "for ruined runs: differences are those of sound runs.",
        "Tune seeds flatter the configs that they chose.",
        f"Differences are paired by seed where at least {MIN_SEEDS} seeds are common (Student's t), else of the two "
        f"means (Welch); below {MIN_SEEDS} seeds there is no interval.",
    ]
    if pairs > 1:
        lines.append(f"Intervals hold together with {CONFIDENCE:.0%} for all {pairs} comparisons (Bonferroni).")
    return lines
