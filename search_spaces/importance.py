"""Importance of each parameter of a space for the observed objective, by two of Optuna's methods."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import optuna
from optuna.distributions import BaseDistribution, FloatDistribution, IntDistribution

from search_spaces.distributions import Scalar
from search_spaces.sampling import Observation, new_study, optuna_distributions
from search_spaces.space import SearchSpace

MIN_AMONG_BEST = 5
"""Least number of points among the best, which PED-ANOVA compares with all points."""
_BEST_SHARE = 0.1
_DEPTH = 8
"""Depth of fANOVA's trees in place of Optuna's 64; shares differ by a few hundredths, and many points take seconds."""


@dataclass(frozen=True)
class Importances:
    """Importance of each parameter by its name, in the space's order."""

    fanova: dict[str, float]
    """Share of the variance over the whole space that the parameter explains alone; the rest is joint effects."""
    ped_anova: dict[str, float]
    """Weight of the parameter in whether a point is among the best; all add up to 1, or are 0 if nothing matters."""
    num_best: int
    """Number of points that PED-ANOVA took for the best: a tenth, at least 5, and all that equal the last one."""


def importances(space: SearchSpace, observations: Sequence[Observation]) -> Importances | None:
    """Weigh the parameters that vary; the same observations give the same numbers.

    Args:
        observations: observations, of which only complete ones count; a larger value is better.
    Returns: the importances; None for at most 5 complete observations, or if no point is worse than the best ones.
    """
    complete = [item for item in observations if item.state == "complete" and item.value is not None]
    distributions = {name: kind for name, kind in optuna_distributions(space).items() if not kind.single()}
    values = np.array([item.value for item in complete], dtype=float)
    if len(values) <= MIN_AMONG_BEST or not distributions:
        return None
    share = max(_BEST_SHARE, MIN_AMONG_BEST / len(values))
    num_best = int((values >= np.sort(values)[-math.ceil(share * len(values))]).sum())  # as PED-ANOVA counts them
    if num_best == len(values):
        return None
    study = new_study(optuna.samplers.RandomSampler())
    axes = {name: _axis(kind) for name, kind in distributions.items()}
    for item in complete:
        params = {name: _place(item.params[name], distributions[name]) for name in distributions}
        study.add_trial(optuna.create_trial(value=item.value, params=params, distributions=axes))
    trees = max(16, min(64, 6400 // len(values)))  # fewer where each takes longer
    fanova = optuna.importance.FanovaImportanceEvaluator(n_trees=trees, max_depth=_DEPTH, seed=0).evaluate(study)
    best = optuna.importance.PedAnovaImportanceEvaluator(target_quantile=share).evaluate(study)
    total = sum(best.values()) or 1.0
    return Importances(
        fanova={name: float(fanova[name]) for name in distributions},
        ped_anova={name: float(best[name]) / total for name in distributions},
        num_best=num_best,
    )


def _axis(distribution: BaseDistribution) -> BaseDistribution:
    """Replace a parameter on a log scale by its logarithm, because fANOVA spreads points evenly over plain values."""
    if isinstance(distribution, FloatDistribution | IntDistribution) and distribution.log:
        return FloatDistribution(math.log10(distribution.low), math.log10(distribution.high))
    return distribution


def _place(value: Scalar, distribution: BaseDistribution) -> Scalar:
    axis = _axis(distribution)
    if axis is distribution or not isinstance(axis, FloatDistribution) or not isinstance(value, int | float):
        return value
    return min(max(math.log10(value), axis.low), axis.high)
