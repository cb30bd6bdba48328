"""The health of one run in figures, by its curves of entropy, reward and completion length."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from sweep_service.sweep.series import Series, TrialSeries, Values

WINDOW: Final = 0.05
"""Share of a run's steps over which curves are averaged before they are judged."""
_SHORTEST: Final = 4
"""Smallest number of steps in a window, because a single batch is mostly noise."""
_EMPTY: Final = Series(np.empty(0, dtype=np.int64), np.empty(0))
COLLAPSE: Final = 0.5
"""Share of the run's own peak below which a fall of the reward, or of the share of right answers, is a collapse."""
ERRORS: Final = 3.0
"""Number of standard errors of sampling by which a run has fallen at the least before it counts as fallen."""
LEARNED: Final = 0.05
"""Reward, or held-out accuracy where rewards are small, above which a run has learned something it can lose."""
ENTROPY_COLLAPSE: Final = 0.2
"""Share of its start below which entropy counts as collapsed."""
ACCURACY: Final = "eval/avg_at_k"
"""The metric that is the share of right answers on held-out problems."""
COLUMNS: Final = (
    "entropy_start", "entropy_end", "entropy_kept", "reward_peak", "reward_final",
    "reward_collapsed", "entropy_collapsed", "length_start", "length_end",
)  # fmt: skip
"""Fields of a run's health that the report's tables show, for configs too."""


@dataclass(frozen=True)
class Health:
    """Means over windows of the run's steps; None where nothing was recorded."""

    entropy_start: float | None = None
    entropy_end: float | None = None
    entropy_lowest: float | None = None
    entropy_highest: float | None = None
    reward_peak: float | None = None
    reward_before: float | None = None
    """Best reward before its deepest fall, from when it first reached half of its peak; None if it never learned."""
    reward_lowest: float | None = None
    """Lowest reward after `reward_before`."""
    reward_final: float | None = None
    length_start: float | None = None
    length_end: float | None = None
    diverged: bool = False
    answers_lost: bool = False
    """True if it ended with less than half of the share of right answers that it had at its best."""

    @property
    def collapsed(self) -> bool:
        """True if the trained model lost more than half of its right answers, or diverged."""
        return self.diverged or self.answers_lost

    @property
    def reward_collapsed(self) -> bool:
        """True if the run lost more than half of its best reward for a window, or diverged."""
        if self.diverged:
            return True
        if self.reward_before is None or self.reward_lowest is None or self.reward_before <= 0:
            return False
        return self.reward_lowest < COLLAPSE * self.reward_before

    @property
    def entropy_collapsed(self) -> bool:
        """True if less than a fifth of the entropy was left for a window."""
        if self.entropy_start is None or self.entropy_lowest is None or self.entropy_start <= 0:
            return False
        return self.entropy_lowest < ENTROPY_COLLAPSE * self.entropy_start

    @property
    def entropy_kept(self) -> float | None:
        """Entropy at the end divided by entropy at the start."""
        if self.entropy_start is None or self.entropy_end is None or self.entropy_start <= 0:
            return None
        return self.entropy_end / self.entropy_start


@dataclass(frozen=True)
class RunCurves:
    """The curves of one run."""

    total_steps: int
    last: int
    """Number of last evaluations whose mean is the run's result."""
    series: TrialSeries | None = None
    """Its metrics; None while it has recorded nothing."""
    samples: int | None = None
    """Number of judged samples of one evaluation; None where its trainer does not count them."""
    diverged: bool = False

    def present(self, key: str) -> Series:
        """Return a metric at the steps that have a value; empty if it was not recorded."""
        found = self.series and self.series.get(key)
        return found.present if found else _EMPTY

    @property
    def step(self) -> int:
        """The last step that it has recorded."""
        found = [] if self.series is None else [self.series.steps, self.series.eval_steps]
        return max((int(steps[-1]) for steps in found if steps.size), default=0)

    def windows(self, key: str) -> Values:
        """Return moving means of a metric over windows of steps; empty if it was not recorded."""
        found = self.present(key)
        gap = float(np.median(np.diff(found.steps))) if found.steps.size > 1 else 1.0
        return smooth(found.values, max(1, round(window(self.total_steps) / gap)))

    @cached_property
    def health(self) -> Health:
        """The figures of its health so far."""
        if self.series is None:
            return Health(diverged=self.diverged)
        entropy, reward = self.windows("entropy"), self.windows("reward/mean")
        length, accuracy = self.windows("completion/length_mean"), self.present(ACCURACY).values
        learned = max(reward.max(initial=0.0), accuracy.max(initial=0.0)) > LEARNED
        before, lowest = _deepest_fall(reward) if learned else (None, None)
        return Health(
            entropy_start=value_at(entropy, 0),
            entropy_end=value_at(entropy, -1),
            entropy_lowest=float(entropy.min()) if entropy.size else None,
            entropy_highest=float(entropy.max()) if entropy.size else None,
            reward_peak=float(reward.max()) if reward.size else None,
            reward_before=before,
            reward_lowest=lowest,
            reward_final=value_at(reward, -1),
            length_start=value_at(length, 0),
            length_end=value_at(length, -1),
            diverged=self.diverged,
            answers_lost=answers_lost(accuracy, self.last, self.samples),
        )

    @cached_property
    def lost_at(self) -> int | None:
        """Step of the first evaluation at which its answers were lost, whatever came later; None if never.

        So it follows from the evaluations until then, however many more have arrived.
        """
        accuracy = self.present(ACCURACY)
        counts = range(1, len(accuracy.values) + 1)
        found = (n for n in counts if answers_lost(accuracy.values[:n], self.last, self.samples))
        first = next(found, None)
        return None if first is None else int(accuracy.steps[first - 1])


def answers_lost(accuracy: Values, last: int, samples: int | None) -> bool:
    """Return True if the last evaluations' mean is less than half of the best one, by more than sampling explains.

    The first evaluation counts by itself. Of trainers that do not say how many samples an evaluation has, the errors
    of sampling are not known, and count as 0.
    """
    if not accuracy.size:
        return False
    width = min(last, accuracy.size)
    means = np.convolve(accuracy, np.full(width, 1 / width), mode="valid")
    first, peak, end = float(accuracy[0]), float(means.max()), float(means[-1])
    best, averaged = max((first, 1), (peak, width))
    spread = best * (1 - best) / samples if samples else 0.0
    error = math.sqrt(max(spread, 0.0) * (1 / averaged + 1 / width))
    return best > LEARNED and end < COLLAPSE * best and best - end > ERRORS * error


def _deepest_fall(reward: Values) -> tuple[float | None, float | None]:
    """Return the best window so far and the later one that lost most of it; small early rewards are no peak."""
    if not reward.size or reward.max() <= 0:
        return None, None
    best = np.maximum.accumulate(reward)
    begin = int(np.argmax(best >= reward.max() / 2))
    deepest = begin + int((reward[begin:] / best[begin:]).argmin())
    return float(best[deepest]), float(reward[deepest])


def value_at(values: Values, index: int) -> float | None:
    """Return the value at an index; None if there are no values."""
    return float(values[index]) if values.size else None


def window(total_steps: int) -> int:
    """Return the number of steps in a window."""
    return max(_SHORTEST, round(WINDOW * total_steps))


def smooth(values: Values, width: int) -> Values:
    """Return moving means over so many values, or over all if there are fewer; empty without values."""
    if not values.size:
        return values
    width = min(len(values), width)
    sums = np.concatenate([[0.0], np.cumsum(values)])
    return (sums[width:] - sums[:-width]) / width
