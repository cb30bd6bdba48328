"""Curves for the report: a point a rollout, means over seeds, and every seed's curve thinned so that peaks stay."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy import stats

from sweep_service.records import Config, Trial
from sweep_service.report.data import ReportInputs
from sweep_service.report.model import ConfigCurve, CurveSet, SeedCurve
from sweep_service.report.stats import CONFIDENCE, MIN_SEEDS
from sweep_service.series import EVALUATION, Series, Values

POINTS_IN_ALL = 120_000
"""How many points all seed curves may have together, and all means; keeps the report below 10 MB."""
MOST_POINTS = 240
FEWEST_POINTS = 24
_DIGITS = 4
_SUMMED: Final = "entropy_change/"
"""Changes add up over a rollout's updates; everything else is averaged."""


@dataclass(frozen=True)
class _Run:
    trial: Trial
    series: Series


def curve_sets(configs: Sequence[Config], inputs: ReportInputs, keys: Mapping[str, bool]) -> list[CurveSet]:
    """Return the metrics asked for, of every config that recorded them.

    Args:
        configs: in the order in which they are to be shown.
        inputs: the curves of single trials.
        keys: which metrics, and whether every seed's curve is wanted beside the mean.
    """
    updates = {config.id: config.updates_per_rollout for config in configs}
    grouped: dict[tuple[str, str], list[_Run]] = {}
    for trial in inputs.trials:
        for key in keys:
            series = inputs.get(trial.id, key)
            if series is not None and not np.isnan(series.values).all():
                shown = series if key.startswith(EVALUATION) else by_rollout(series, updates[trial.config_id], key)
                grouped.setdefault((key, trial.config_id), []).append(_Run(trial, shown))
    seed_points = _share(sum(len(runs) for (key, _), runs in grouped.items() if keys[key]))
    mean_points = _share(len(configs) * len(keys)) // 2
    sets = [
        CurveSet(
            key=key,
            configs=[
                _config_curve(config.id, grouped[key, config.id], mean_points, seed_points if seeds else 0)
                for config in configs
                if (key, config.id) in grouped
            ],
        )
        for key, seeds in keys.items()
    ]
    return [found for found in sets if found.configs]


def by_rollout(series: Series, updates: int, key: str) -> Series:
    """Sum or average over each rollout's updates: within a rollout ratios move away from 1 and start anew after it."""
    starts = np.flatnonzero(np.diff((series.steps - 1) // updates, prepend=-1))
    known = ~np.isnan(series.values)
    sums = np.add.reduceat(np.where(known, series.values, 0.0), starts)
    counts = np.add.reduceat(known.astype(np.int64), starts)
    divisor = np.minimum(counts, 1) if key.startswith(_SUMMED) else counts
    ends = np.append(starts[1:], len(series.steps)) - 1
    values = np.divide(sums, divisor, out=np.full(len(starts), np.nan), where=counts > 0)
    return Series(series.steps[ends], values)


def _share(curves: int) -> int:
    """How many points each of so many curves may have."""
    return min(MOST_POINTS, max(FEWEST_POINTS, POINTS_IN_ALL // max(1, curves)))


def _config_curve(config_id: str, runs: Sequence[_Run], mean_points: int, seed_points: int) -> ConfigCurve:
    steps, mean, half = _mean([run.series for run in runs], mean_points)
    in_order = sorted(runs, key=lambda run: (run.trial.stage, run.trial.seed)) if seed_points else []
    band = not np.isnan(half).all()
    return ConfigCurve(
        config_id=config_id,
        steps=[int(step) for step in steps],
        mean=_rounded(mean),
        low=_rounded(mean - half) if band else [],
        high=_rounded(mean + half) if band else [],
        seeds=[_seed_curve(run, seed_points) for run in in_order],
    )


def _mean(curves: Sequence[Series], buckets: int) -> tuple[Values, Values, Values]:
    """Steps, mean and half width over trials where at least half of them have a value; then over equal stretches."""
    all_steps = np.unique(np.concatenate([curve.steps for curve in curves]))
    table_TS = np.full((len(curves), len(all_steps)), np.nan)
    for row, curve in zip(table_TS, curves, strict=True):
        row[np.searchsorted(all_steps, curve.steps)] = curve.values
    n_S = (~np.isnan(table_TS)).sum(axis=0)
    kept = 2 * n_S >= len(curves)
    table_TS, n_S, steps = table_TS[:, kept], n_S[kept], all_steps[kept].astype(float)
    mean = np.nanmean(table_TS, axis=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # the spread of a single value
        sd = np.nanstd(table_TS, axis=0, ddof=1)
    critical = stats.t.ppf((1 + CONFIDENCE) / 2, np.maximum(n_S - 1, 1))
    half = np.where(n_S >= MIN_SEEDS, critical * sd / np.sqrt(n_S), np.nan)
    if len(steps) <= buckets:
        return steps, mean, half
    parts = np.array_split(np.arange(len(steps)), buckets)
    steps, mean, half = (np.array([values[part].mean() for part in parts]) for values in (steps, mean, half))
    return steps.round(), mean, half


def _seed_curve(run: _Run, points: int) -> SeedCurve:
    kept = _kept(run.series.values, points)
    return SeedCurve(
        trial_id=run.trial.id,
        seed=run.trial.seed,
        stage=run.trial.stage,
        steps=[int(step) for step in run.series.steps[kept]],
        values=_rounded(run.series.values[kept]),
    )


def _kept(values: Values, points: int) -> list[int]:
    """Indices of the lowest and highest value of equal stretches: a spike of one step is still there."""
    if len(values) <= points:
        return list(range(len(values)))
    kept = {0, len(values) - 1}
    for part in np.array_split(np.arange(len(values)), points // 2):
        present = part[~np.isnan(values[part])]
        if present.size:
            kept |= {int(present[values[present].argmin()]), int(present[values[present].argmax()])}
    return sorted(kept)


def _rounded(values: Values) -> list[float | None]:
    return [None if np.isnan(value) else float(f"{value:.{_DIGITS}g}") for value in values]
