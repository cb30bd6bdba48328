"""Curves by rollout: means or sums over each rollout's updates, and the slope of a trial's log entropy."""

from typing import Final

import numpy as np

from sweep_service.report.facts.report_inputs import ReportInputs
from sweep_service.report.model import TrialRow
from sweep_service.sweep.beta_design import FEWEST_ROLLOUTS
from sweep_service.sweep.records import Config, TrialState
from sweep_service.sweep.series import Series

_SUMMED: Final = "entropy_change/"
"""Prefix of the metrics that add up over a rollout's updates; all others are averaged."""
_SMALLEST: Final = 1e-6
"""Entropy in nats that stands for smaller ones in a logarithm."""


def by_rollout(series: Series, updates: int, key: str) -> Series:
    """Sum or average over each rollout's updates, because ratios drift from 1 within a rollout and then start anew."""
    rollouts = (series.steps - 1) // updates
    starts = np.append(0, 1 + np.flatnonzero(rollouts[1:] != rollouts[:-1]))
    present = ~np.isnan(series.values)
    sums = np.add.reduceat(np.where(present, series.values, 0.0), starts)
    counts = np.add.reduceat(present.astype(np.int64), starts)
    divisor = np.minimum(counts, 1) if key.startswith(_SUMMED) else counts
    ends = np.append(starts[1:], len(series.steps)) - 1
    values = np.divide(sums, divisor, out=np.full(len(starts), np.nan), where=counts > 0)
    return Series(series.steps[ends], values)


def entropy_slope(trial: TrialRow, config: Config, inputs: ReportInputs) -> float | None:
    """Fit log entropy over the share of training by a straight line; None for all but a whole trial of ce_gppo."""
    series, loss = inputs.get(trial.id, "entropy"), config.training.get("loss", {})
    if series is None or trial.state is not TrialState.SUCCEEDED:
        return None
    if loss.get("name") != "ce_gppo" or loss.get("schedule"):
        return None
    entropy = by_rollout(series, config.updates_per_rollout, "entropy").present
    if entropy.values.size < FEWEST_ROLLOUTS:
        return None
    return float(np.polyfit(entropy.steps / trial.total_steps, np.log(np.maximum(entropy.values, _SMALLEST)), 1)[0])
