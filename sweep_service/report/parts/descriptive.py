"""Summaries of the confirm stage that claim nothing: interquartile means, performance profiles, improvement."""

from collections.abc import Sequence
from statistics import fmean
from typing import Final

import numpy as np

from sweep_service.report.model import Descriptive, Profile
from sweep_service.report.statistics.critical_values import Floats
from sweep_service.report.sweep_facts import Facts
from sweep_service.sweep.records import Stage

THRESHOLDS: Final = 41


def descriptive(facts: Facts) -> Descriptive | None:
    """Sum up every confirmed config beside the verdict's comparator; None without one."""
    if not facts.comparisons:
        return None
    comparison = facts.verdict.comparison or facts.comparisons[0]
    arms = {row.id: row.confirm for row in facts.ordered if row.confirm is not None}
    results = {id_: np.sort([seed.value for seed in stage.seeds]) for id_, stage in arms.items()}
    everything = np.concatenate(list(results.values()))
    thresholds = np.unique(np.linspace(everything.min(), everything.max(), THRESHOLDS))
    comparator = arms[comparison.comparator_id]
    deltas = {id_: [*stage.minus(comparator).values()] for id_, stage in arms.items() if stage is not comparator}
    steady_ids = arms.keys() - facts.unsteady
    steady = [arm for id_, arm in arms.items() if id_ in steady_ids and arm.sd is not None]
    df = sum(arm.n - 1 for arm in steady)
    own = [trial for trial in facts.trials if trial.stage is Stage.CONFIRM and trial.config_id in steady_ids]
    errors = [trial.evaluation_se for trial in own if trial.evaluation_se is not None]
    return Descriptive(
        comparator_id=comparison.comparator_id,
        thresholds=thresholds.tolist(),
        profiles=[
            Profile(config_id=id_, shares=(1 - np.searchsorted(values, thresholds) / len(values)).tolist())
            for id_, values in results.items()
        ],
        iqm={id_: interquartile_mean(differences) for id_, differences in deltas.items() if differences},
        improvement={id_: improvement(results[id_], results[comparison.comparator_id]) for id_ in deltas},
        training_sd=float(np.sqrt(sum((arm.n - 1) * (arm.sd or 0) ** 2 for arm in steady) / df)) if df else None,
        evaluation_se=fmean(error**2 for error in errors) ** 0.5 if errors else None,
    )


def interquartile_mean(values: Sequence[float]) -> float:
    """Return the mean of the middle half; values that a quartile cuts count in part."""
    n = len(values)
    at = np.arange(n)
    weights = np.clip(np.minimum(at + 1, 0.75 * n) - np.maximum(at, 0.25 * n), 0, None)
    return float(np.sort(values) @ weights / weights.sum())


def improvement(values: Floats, others: Floats) -> float:
    """Return the share of pairs in which the first one is higher; equal ones count half, and `others` are sorted."""
    below, up_to = np.searchsorted(others, values, "left"), np.searchsorted(others, values, "right")
    return float((below + up_to).mean() / 2 / len(others))
