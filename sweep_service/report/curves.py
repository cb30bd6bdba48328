"""Curves for the report: a point a rollout, means over seeds, and every seed's curve thinned so that peaks stay."""

from collections.abc import Mapping, Sequence
from statistics import fmean

import numpy as np

from sweep_service.records import Config, Curve
from sweep_service.report.model import ConfigCurve, CurveSet, SeedCurve

POINTS_IN_ALL = 120_000
"""How many points all seed curves may have together, and all means; keeps the report below 10 MB."""
MOST_POINTS = 240
FEWEST_POINTS = 24
_DIGITS = 4


def curve_sets(configs: Sequence[Config], curves: Sequence[Curve], keys: Mapping[str, bool]) -> list[CurveSet]:
    """Return the metrics asked for, of every config that recorded them.

    Args:
        configs: in the order in which they are to be shown.
        curves: of single trials.
        keys: which metrics, and whether every seed's curve is wanted beside the mean.
    """
    seed_points = _share(sum(1 for curve in curves if keys.get(curve.key)))
    mean_points = _share(len(configs) * len(keys)) // 2
    updates = {config.id: config.updates_per_rollout for config in configs}
    grouped: dict[tuple[str, str], list[Curve]] = {}
    for curve in curves:
        if curve.key in keys and any(value is not None for value in curve.values):
            shown = curve if curve.key.startswith("eval/") else _by_rollout(curve, updates[curve.config_id])
            grouped.setdefault((curve.key, curve.config_id), []).append(shown)
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


def _by_rollout(curve: Curve, updates: int) -> Curve:
    """Average over each rollout's updates: within a rollout ratios move away from 1 and start anew with the next."""
    rollouts: dict[int, list[int]] = {}
    for i, step in enumerate(curve.steps):
        rollouts.setdefault((step - 1) // updates, []).append(i)
    means: list[float | None] = []
    for part in rollouts.values():
        present = [value for i in part if (value := curve.values[i]) is not None]
        means.append(fmean(present) if present else None)
    last = [part[-1] for part in rollouts.values()]
    times, steps = [curve.times[i] for i in last], [curve.steps[i] for i in last]
    return curve.model_copy(update={"steps": steps, "times": times, "values": means})


def _share(curves: int) -> int:
    """How many points each of so many curves may have."""
    return min(MOST_POINTS, max(FEWEST_POINTS, POINTS_IN_ALL // max(1, curves)))


def _config_curve(config_id: str, curves: Sequence[Curve], mean_points: int, seed_points: int) -> ConfigCurve:
    steps, mean = _mean(curves, mean_points)
    in_order = sorted(curves, key=lambda curve: (curve.stage, curve.seed)) if seed_points else []
    seeds = [_seed_curve(curve, seed_points) for curve in in_order]
    return ConfigCurve(config_id=config_id, steps=steps, mean=mean, seeds=seeds)


def _mean(curves: Sequence[Curve], buckets: int) -> tuple[list[int], list[float | None]]:
    """Mean over trials at each step where at least half of them have a value; then over equal stretches of steps."""
    sums: dict[int, list[float]] = {}
    for curve in curves:
        for step, value in zip(curve.steps, curve.values, strict=True):
            if value is not None:
                sums.setdefault(step, []).append(value)
    steps = [step for step in sorted(sums) if 2 * len(sums[step]) >= len(curves)]
    means = [float(np.mean(sums[step])) for step in steps]
    if len(steps) <= buckets:
        return steps, [_rounded(value) for value in means]
    parts = np.array_split(np.arange(len(steps)), buckets)
    return (
        [round(float(np.mean([steps[i] for i in part]))) for part in parts],
        [_rounded(float(np.mean([means[i] for i in part]))) for part in parts],
    )


def _seed_curve(curve: Curve, points: int) -> SeedCurve:
    kept = _kept(curve.values, points)
    return SeedCurve(
        trial_id=curve.trial_id,
        seed=curve.seed,
        stage=curve.stage,
        steps=[curve.steps[i] for i in kept],
        values=[_rounded(curve.values[i]) for i in kept],
    )


def _kept(values: Sequence[float | None], points: int) -> list[int]:
    """Indices of the lowest and highest value of equal stretches: a spike of one step is still there."""
    if len(values) <= points:
        return list(range(len(values)))
    kept = {0, len(values) - 1}
    for part in np.array_split(np.arange(len(values)), points // 2):
        present = [(value, int(i)) for i in part if (value := values[i]) is not None]
        if present:
            kept |= {min(present)[1], max(present)[1]}
    return sorted(kept)


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.{_DIGITS}g}")
