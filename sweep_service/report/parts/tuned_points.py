"""The points of the space that tuning tried, with their results."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from search_spaces.distributions import Categorical, Distribution, Float, Int, is_number
from sweep_service.report.sweep_facts import Facts
from sweep_service.sweep.labels import value_text
from sweep_service.sweep.records import Role, Stage

_LOG_RANGE = 20.0
"""Ratio of the largest to the smallest positive value from which values are put on a log scale."""


@dataclass(frozen=True)
class TunedPoint:
    """A config of the space with a tune result."""

    params: Mapping[str, Any]
    """The space's parameters by dotted name."""
    values: Mapping[int, float]
    """Objective by tune seed."""
    collapsed: bool
    """True if one of the config's tune trials collapsed or diverged."""


@dataclass(frozen=True)
class SeedFit:
    """The fit of result = config + seed + error to the results of one stage."""

    means: npt.NDArray[np.float64]
    """Means of the configs, as if each had all seeds."""
    variance: float | None
    """Variance of the error; None without degrees of freedom."""
    df: int


def tuned_points(facts: Facts) -> list[TunedPoint]:
    """Return the configs of the space that have a tune result, by number."""
    collapsed = collapsed_in_tuning(facts)
    return [
        TunedPoint(config.params, tune.by_seed, config.id in collapsed)
        for config in facts.inputs.configs
        if Role.SPACE in config.roles and (tune := facts.rows[config.id].tune) is not None
    ]


def collapsed_in_tuning(facts: Facts) -> set[str]:
    """Return the ids of configs with a tune trial that collapsed or diverged."""
    return {trial.config_id for trial in facts.trials if trial.stage is Stage.TUNE and trial.reward_collapsed}


def fit_seeds(results: Sequence[Mapping[int, float]]) -> SeedFit:
    """Fit config and seed effects by least squares, so that a missing seed does not bias a config's mean.

    Args:
        results: each config's results by seed; none is empty.
    """
    seeds = {seed: column for column, seed in enumerate(sorted({seed for values in results for seed in values}))}
    rows = np.repeat(np.arange(len(results)), [len(values) for values in results])
    columns = np.array([seeds[seed] for values in results for seed in values])
    y_N = np.array([value for values in results for value in values.values()])
    counts_C = np.bincount(rows)
    means_C = np.bincount(rows, y_N) / counts_C
    centred_N = y_N - means_C[rows]
    if len(y_N) == len(results) * len(seeds):  # every config has every seed
        effect_S = np.bincount(columns, centred_N) / len(results)
        df = (len(results) - 1) * (len(seeds) - 1)
        rest_N = centred_N - effect_S[columns]
    else:
        has_CS = np.zeros((len(results), len(seeds)))
        has_CS[rows, columns] = 1
        share_CS = has_CS / counts_C[:, None]
        design_NS = np.eye(len(seeds))[columns] - share_CS[rows]
        effect_S, _, rank, _ = np.linalg.lstsq(design_NS, centred_N, rcond=None)
        effect_S = effect_S - effect_S.mean()
        means_C = means_C - share_CS @ effect_S
        df = len(y_N) - len(results) - int(rank)
        rest_N = centred_N - design_NS @ effect_S
    return SeedFit(means_C, float(rest_N @ rest_N) / df if df > 0 else None, df)


def distinct(values: Sequence[Any], distribution: Distribution | None = None) -> list[Any]:
    """Return each value once: numbers by size, others in the space's order, values that it does not list last."""
    by_repr = {repr(value): value for value in values}
    unique = list(by_repr.values())
    if all(is_number(value) for value in unique):
        return sorted(unique)
    listed = [repr(choice) for choice in distribution.choices] if isinstance(distribution, Categorical) else []
    return sorted(unique, key=lambda v: (listed.index(repr(v)) if repr(v) in listed else len(listed), value_text(v)))


def on_log_scale(values: Sequence[float], distribution: Distribution | None) -> bool:
    """Return True for a parameter on a log scale: searched on one, or spread over a wide positive range."""
    if isinstance(distribution, Float | Int):
        return distribution.log
    return min(values) > 0 and max(values) >= _LOG_RANGE * min(values)
