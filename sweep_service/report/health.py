"""What one trial's curves say about its health: entropy lost, reward collapsed."""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from sweep_service.records import Trial, TrialState
from sweep_service.report.data import ReportInputs
from sweep_service.series import Series

WINDOW: Final = 0.05
"""Share of a trial's steps over which curves are averaged before they are judged."""
REWARD_COLLAPSE: Final = 0.5
"""A reward below this share of the trial's own peak at the end is a collapse."""
ENTROPY_COLLAPSE: Final = 0.2
"""An entropy below this share of its start at the end is a collapse."""


@dataclass(frozen=True)
class Health:
    """Means over windows of `WINDOW` of the trial's steps; None where nothing was recorded."""

    entropy_start: float | None = None
    entropy_end: float | None = None
    reward_peak: float | None = None
    reward_final: float | None = None
    diverged: bool = False

    @property
    def reward_collapsed(self) -> bool:
        """Whether the trial lost more than half of the best reward that it had reached, or diverged."""
        if self.diverged:
            return True
        if self.reward_peak is None or self.reward_final is None or self.reward_peak <= 0:
            return False
        return self.reward_final < REWARD_COLLAPSE * self.reward_peak

    @property
    def entropy_collapsed(self) -> bool:
        """Whether less than a fifth of the entropy is left."""
        if self.entropy_start is None or self.entropy_end is None or self.entropy_start <= 0:
            return False
        return self.entropy_end < ENTROPY_COLLAPSE * self.entropy_start


def trial_health(trial: Trial, inputs: ReportInputs) -> Health:
    """Judge a trial by what it has recorded so far."""
    entropy = smooth(inputs.get(trial.id, "entropy"), trial.total_steps)
    reward = smooth(inputs.get(trial.id, "reward/mean"), trial.total_steps)
    return Health(
        entropy_start=float(entropy[0]) if entropy.size else None,
        entropy_end=float(entropy[-1]) if entropy.size else None,
        reward_peak=float(reward.max()) if reward.size else None,
        reward_final=float(reward[-1]) if reward.size else None,
        diverged=trial.state is TrialState.DIVERGED,
    )


def smooth(series: Series | None, total_steps: int) -> npt.NDArray[np.float64]:
    """Moving means over `WINDOW` of a trial's steps; empty without values."""
    values = series.present.values if series else np.empty(0)
    width = min(len(values), max(1, round(WINDOW * total_steps)))
    if not values.size:
        return values
    sums = np.concatenate([[0.0], np.cumsum(values)])
    return (sums[width:] - sums[:-width]) / width
