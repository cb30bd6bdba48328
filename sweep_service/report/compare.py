"""Sweeps beside each other: configs that are in both, with the differences of their objectives. Pure."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from scipy import stats

from sweep_service.records import Config, Sweep
from sweep_service.report.stats import CONFIDENCE, MIN_SEEDS
from sweep_service.schemas import ComparedSweep, ConfigDifference, ConfigValues, SharedConfig, SweepsComparison

_MOST_SETTINGS: Final = 20


@dataclass(frozen=True)
class Results:
    """One sweep with the objectives of its trials."""

    sweep: Sweep
    configs: Sequence[Config]
    values: Mapping[str, Mapping[int, float]]
    """By config id and seed, of both stages; their seeds differ."""


def compare_sweeps(compared: Sequence[Results]) -> SweepsComparison:
    """Join the configs that the first sweep shares with any other, and compare each with the first.

    Args:
        compared: at least two, in the order in which they are to be shown.
    """
    first, *others = compared
    ids = [config.id for config in first.configs if any(config.id in _ids(other) for other in others)]
    pairs = sum(_comparable(first, other, id_) for id_ in ids for other in others)
    level = 1 - (1 - CONFIDENCE) / max(1, pairs)
    params = {config.id: config.params for config in first.configs}
    shared = [
        SharedConfig(
            config_id=id_,
            params=params[id_],
            values=[_values(results.values.get(id_, {})) for results in compared],
            differences=[_difference(first, other, id_, level) for other in others],
        )
        for id_ in ids
    ]
    return SweepsComparison(
        sweeps=[_head(results, len(ids)) for results in compared],
        shared=shared,
        notes=_notes(compared, shared),
        method=_method(pairs),
    )


def _ids(results: Results) -> set[str]:
    return {config.id for config in results.configs}


def _comparable(first: Results, other: Results, config_id: str) -> bool:
    """Whether an interval can be given."""
    return _difference(first, other, config_id, CONFIDENCE).low is not None


def _head(results: Results, shared: int) -> ComparedSweep:
    sweep, objective = results.sweep, results.sweep.spec.objective
    return ComparedSweep(
        **sweep.model_dump(include={"id", "name", "spec_digest"}),
        state=sweep.state,
        objective=f"{objective.metric}, mean of the last {objective.last}",
        configs=len(results.configs),
        only_here=len(results.configs) - shared if shared else len(results.configs),
    )


def _values(values: Mapping[int, float]) -> ConfigValues:
    data = list(values.values())
    if not data:
        return ConfigValues(n=0, mean=None, sd=None)
    return ConfigValues(n=len(data), mean=float(np.mean(data)), sd=float(np.std(data, ddof=1)) if data[1:] else None)


def _difference(first: Results, other: Results, config_id: str, level: float) -> ConfigDifference:
    """Paired where both have at least `MIN_SEEDS` seeds in common, else of the two means."""
    before, after = first.values.get(config_id, {}), other.values.get(config_id, {})
    common = sorted(before.keys() & after.keys())
    paired = len(common) >= MIN_SEEDS
    if not before or not after:
        return ConfigDifference(sweep_id=other.sweep.id, paired=False, seeds=0)
    if paired:
        deltas = np.array([after[seed] - before[seed] for seed in common])
        half = _half(float(deltas.std(ddof=1)) / math.sqrt(len(deltas)), len(deltas) - 1, level)
        estimate, seeds = float(deltas.mean()), len(common)
    else:
        sides = [np.array(list(values.values())) for values in (after, before)]
        estimate, seeds = float(sides[0].mean() - sides[1].mean()), min(len(side) for side in sides)
        half = _welch(sides, level) if seeds >= MIN_SEEDS else None
    same = bool(common) and all(before[seed] == after[seed] for seed in common)
    return ConfigDifference(
        sweep_id=other.sweep.id,
        paired=paired,
        seeds=seeds,
        difference=estimate,
        low=None if half is None else estimate - half,
        high=None if half is None else estimate + half,
        repeated=len(common) if same else 0,
    )


def _welch(sides: Sequence[Any], level: float) -> float:
    """Half the width of Welch's interval of the difference of two means."""
    parts = [float(side.var(ddof=1)) / len(side) for side in sides]
    total = sum(parts)
    if total == 0:
        return 0.0
    df = total**2 / sum(part**2 / (len(side) - 1) for part, side in zip(parts, sides, strict=True))
    return _half(math.sqrt(total), df, level)


def _half(error: float, df: float, level: float) -> float:
    return float(stats.t.ppf((1 + level) / 2, df)) * error


def _notes(compared: Sequence[Results], shared: Sequence[SharedConfig]) -> list[str]:
    """What a reader must know before reading the differences."""
    notes: list[str] = []
    first, *others = compared
    for other in others:
        names = _settings(first.sweep, other.sweep)
        if names:
            more = f", and {len(names) - _MOST_SETTINGS} more" if len(names) > _MOST_SETTINGS else ""
            what = ", ".join(names[:_MOST_SETTINGS])
            notes.append(f"{other.sweep.name} ({other.sweep.id}) has other settings in: {what}{more}.")
        if other.sweep.spec.objective != first.sweep.spec.objective:
            notes.append(f"{other.sweep.name} ranks by another objective: its values are not on the same scale.")
    if not shared:
        notes.append("No config is in both: a config is the same only if every training parameter but the seed is.")
    for sweep in (results.sweep for results in compared):
        if not sweep.state.terminal:
            notes.append(f"{sweep.name} ({sweep.id}) is {sweep.state.lower()}: its values may still change.")
    return notes


def _settings(first: Sweep, other: Sweep) -> list[str]:
    """Dotted names of base training settings in which two sweeps differ."""
    one, two = (_flat(sweep.spec.base.model_dump(mode="json")) for sweep in (first, other))
    return sorted(name for name in one.keys() | two.keys() if one.get(name) != two.get(name))


def _flat(value: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, item in value.items():
        found |= _flat(item, f"{prefix}{name}.") if isinstance(item, dict) else {prefix + name: item}
    return found


def _method(pairs: int) -> list[str]:
    return [
        "A config is the same in two sweeps if every training parameter but the seed is the same.",
        "Its value is the mean of the objective over all its seeds, tune and confirm.",
        f"Differences are paired by seed where at least {MIN_SEEDS} seeds are common (Student's t), else of the two "
        f"means (Welch); below {MIN_SEEDS} seeds there is no interval.",
        f"Intervals hold together with {CONFIDENCE:.0%} for all {pairs} comparisons (Bonferroni).",
    ]
