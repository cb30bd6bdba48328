"""Curves for the report, a point for each rollout: means over seeds, and seeds' curves thinned so that peaks stay."""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

import numpy as np

from sweep_service.report.facts.report_inputs import CURVES, Drawn, ReportInputs
from sweep_service.report.facts.rollouts import by_rollout
from sweep_service.report.model import ConfigRow, CurveSet, ReportCurve, SeedCurve
from sweep_service.report.statistics.critical_values import student_critical
from sweep_service.report.statistics.differences import MIN_SEEDS
from sweep_service.sweep.records import Config, Role, Trial
from sweep_service.sweep.series import EVALUATION, Series, Values

POINTS: Final = 60_000
"""Largest number of points in all means of prominent configs; the other means get as many, seeds' curves half."""
MOST_POINTS: Final = 240
FEWEST_POINTS: Final = 12
FEW_CONFIGS: Final = 20
"""Largest number of configs that are all prominent."""
NUM_RANKED: Final = 5
"""Number of configs, best by tune mean, that are prominent even if unconfirmed."""
_DIGITS = 4
_PEAKED: Final = ("clip_fraction/", "grad_norm", "kl/", "ppo_kl", "probe/kl")
"""Prefixes of the metrics whose means are thinned to the extremes of each stretch. Other means are averaged over it at
common steps, because they are stacked or drawn against each other; their bands keep the extreme bounds."""


_SeedRun = tuple[Trial, Series]
_CurveId = tuple[str, str]
"""Metric and config id."""


def prominent(rows: Sequence[ConfigRow]) -> frozenset[str]:
    """Return the ids of the configs whose curves are drawn in full: all of a few, or the most important of many.

    Of many these are the confirmed ones, the comparators, and by tune mean the best ones and the worst.
    """
    if len(rows) <= FEW_CONFIGS:
        return frozenset(row.id for row in rows)
    ranked = sorted((row.tune.mean, row.id) for row in rows if row.tune)
    outer = {id_ for _, id_ in (*ranked[:1], *ranked[-NUM_RANKED:])}
    return frozenset(row.id for row in rows if row.confirm or Role.SPACE not in row.roles or row.id in outer)


def shown_metrics(inputs: ReportInputs) -> Mapping[str, Drawn]:
    """Return the metrics shown over time: the validation reward only where it is another number than avg@k."""
    pairs = [
        (inputs.present(trial.id, "eval/avg_at_k").values, inputs.present(trial.id, "eval/reward_mean").values)
        for trial in inputs.trials
    ]
    same = all(np.array_equal(right, reward) for right, reward in pairs)
    return {key: drawn for key, drawn in CURVES.items() if not (same and key == "eval/reward_mean")}


def curve_sets(
    configs: Sequence[Config], inputs: ReportInputs, keys: Mapping[str, Drawn], drawn: Collection[str] | None = None
) -> list[CurveSet]:
    """Return the curves of the requested metrics of every config that recorded them.

    Args:
        configs: configs in the order in which they are shown.
        keys: the requested metrics, and how much of each is shown.
        drawn: ids of the prominent configs; by default all. The others have no band and fewer points.
    """
    updates = {config.id: config.updates_per_rollout for config in configs}
    grouped: dict[_CurveId, list[_SeedRun]] = {}
    for trial in inputs.trials:
        for key in keys:
            series = inputs.get(trial.id, key)
            if series is not None and not np.isnan(series.values).all():
                shown = series if key.startswith(EVALUATION) else by_rollout(series, updates[trial.config_id], key)
                grouped.setdefault((key, trial.config_id), []).append((trial, shown))
    full = set(updates) if drawn is None else set(drawn)
    points = _points(grouped, keys, full)
    sets = [
        CurveSet(
            key=key,
            configs=[
                _config_curve((key, config.id), grouped[key, config.id], points[key, config.id], config.id in full)
                for config in configs
                if (key, config.id) in grouped and points[key, config.id][0]
            ],
        )
        for key in keys
    ]
    return [curves for curves in sets if curves.configs]


def _points(
    grouped: Mapping[_CurveId, Sequence[_SeedRun]], keys: Mapping[str, Drawn], full: Collection[str]
) -> dict[_CurveId, tuple[int, int]]:
    """Return the largest number of points of each mean and of each of its seeds' curves; 0 leaves it out.

    Curves share alike: those of prominent configs (`full`), those of other configs, and among the latter those that
    may be left out.
    """
    groups: dict[tuple[int, int], list[_CurveId]] = {}
    for key, id_ in grouped:
        least = (FEWEST_POINTS, FEWEST_POINTS) if id_ in full else (FEWEST_POINTS * (keys[key] != "prominent"), 0)
        groups.setdefault(least, []).append((key, id_))
    points: dict[_CurveId, tuple[int, int]] = {}
    for (least_mean, least_seed), curves in groups.items():
        with_seeds = [curve for curve in curves if keys[curve[0]] == "seeds"]
        mean = _share(len(curves), least_mean)
        seed = _share(2 * sum(len(grouped[curve]) for curve in with_seeds), least_seed)
        points |= dict.fromkeys(curves, (mean, 0)) | dict.fromkeys(with_seeds, (mean, seed))
    return points


def _share(curves: int, least: int) -> int:
    """Return the largest number of points of each curve; `least` where an equal share would be too few to draw."""
    share = min(MOST_POINTS, POINTS // max(1, curves))
    return share if share >= FEWEST_POINTS else least


def _config_curve(curve: _CurveId, runs: Sequence[_SeedRun], points: tuple[int, int], band: bool) -> ReportCurve:
    (key, config_id), (most_mean, most_seed) = curve, points
    steps, mean, half = _mean([series for _, series in runs])
    low, high = mean - half, mean + half
    if key.startswith(_PEAKED):
        places = _extremes(mean, most_mean)
        steps, mean, low, high = steps[places], mean[places], low[places], high[places]
    else:
        steps, mean, low, high = _averaged(steps, mean, low, high, most_mean)
    in_order = sorted(runs, key=lambda run: (run[0].stage, run[0].seed)) if most_seed else []
    band = band and not np.isnan(low).all()
    return ReportCurve(
        config_id=config_id,
        steps=steps.astype(int).tolist(),
        mean=_rounded(mean),
        low=_rounded(low) if band else [],
        high=_rounded(high) if band else [],
        seeds=[_seed_curve(*run, most_seed) for run in in_order],
    )


def _mean(curves: Sequence[Series]) -> tuple[Values, Values, Values]:
    """Return steps, mean and half width over trials, where at least half of them have a value."""
    all_steps = np.unique(np.concatenate([curve.steps for curve in curves]))
    table_TS = np.full((len(curves), len(all_steps)), np.nan)
    for row, curve in zip(table_TS, curves, strict=True):
        row[np.searchsorted(all_steps, curve.steps)] = curve.values
    present_TS = ~np.isnan(table_TS)
    n_S = present_TS.sum(axis=0)
    common_S = 2 * n_S >= len(curves)
    table_TS, present_TS, n_S, steps = (part[..., common_S] for part in (table_TS, present_TS, n_S, all_steps))
    mean = np.where(present_TS, table_TS, 0).sum(axis=0) / n_S
    squares = np.where(present_TS, table_TS - mean, 0) ** 2
    sd = np.sqrt(squares.sum(axis=0) / np.where(n_S > 1, n_S - 1, np.nan))  # a single value has no spread
    critical = np.array([student_critical(n - 1) if n >= MIN_SEEDS else np.nan for n in range(len(curves) + 1)])[n_S]
    return steps.astype(float), mean, critical * sd / np.sqrt(n_S)


def _averaged(
    steps: Values, mean: Values, low: Values, high: Values, points: int
) -> tuple[Values, Values, Values, Values]:
    """Return steps and means averaged over equal stretches, with the lowest and highest bound of each."""
    if len(steps) <= points:
        return steps, mean, low, high
    starts = np.linspace(0, len(steps), points, endpoint=False).astype(np.int64)
    sizes = np.diff(starts, append=len(steps))
    at, level = (np.add.reduceat(values, starts) / sizes for values in (steps, mean))
    return at.round(), level, np.fmin.reduceat(low, starts), np.fmax.reduceat(high, starts)


def _seed_curve(trial: Trial, series: Series, points: int) -> SeedCurve:
    places = _extremes(series.values, points)
    return SeedCurve(
        trial_id=trial.id,
        seed=trial.seed,
        stage=trial.stage,
        steps=series.steps[places].tolist(),
        values=_rounded(series.values[places]),
    )


def _extremes(values: Values, points: int) -> list[int]:
    """Return the indices of the lowest and highest value of equal stretches, so that a spike of one step stays."""
    if len(values) <= points:
        return list(range(len(values)))
    places = {0, len(values) - 1}
    for part in np.array_split(np.arange(len(values)), points // 2):
        present = part[~np.isnan(values[part])]
        if present.size:
            places |= {int(present[values[present].argmin()]), int(present[values[present].argmax()])}
    return sorted(places)


def _rounded(values: Values) -> list[float | None]:
    return [None if value != value else float(f"{value:.{_DIGITS}g}") for value in values.tolist()]
