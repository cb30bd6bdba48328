"""What one trial recorded, as arrays: lists of Python floats would fill the memory of who reads a whole sweep."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

EVALUATION: Final = "eval/"
"""Names of metrics that evaluations record begin with this; the others are recorded by optimizer updates."""

Steps = npt.NDArray[np.int64]
Values = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Series:
    """One metric over its steps."""

    steps: Steps
    """Optimizer updates made, rising."""
    values: Values
    """NaN where a step recorded no value."""

    @property
    def present(self) -> "Series":
        """Only the steps that have a value."""
        known = ~np.isnan(self.values)
        return self if known.all() else Series(self.steps[known], self.values[known])


@dataclass(frozen=True, eq=False)
class TrialSeries:
    """Everything asked for that one trial recorded. Metrics of one kind share one array of steps."""

    trial_id: str
    steps: Steps
    """Of optimizer updates."""
    eval_steps: Steps
    eval_times: Values
    """Seconds since the Unix epoch, of each evaluation."""
    metrics: Mapping[str, Values]
    """By name; each as long as the steps of its kind; NaN for no value. A metric never recorded is left out."""

    def get(self, key: str) -> Series | None:
        """One metric; None if it was never recorded."""
        values = self.metrics.get(key)
        if values is None:
            return None
        return Series(self.eval_steps if key.startswith(EVALUATION) else self.steps, values)

    def arrays(self) -> Iterable[tuple[str, npt.NDArray[np.generic]]]:
        """Every array with a name, in a fixed order."""
        yield from (("steps", self.steps), ("eval_steps", self.eval_steps), ("eval_times", self.eval_times))
        yield from sorted(self.metrics.items())


@dataclass(frozen=True, eq=False)
class Arrays:
    """What one trial recorded of one kind; each array as long as `steps`."""

    steps: Steps
    times: Values
    values: dict[str, Values]
    """Without the metrics that never had a value."""


class Columns:
    """Puts the chunks of one trial and one kind together, older attempts first.

    Args:
        keys: the metrics to keep.
    """

    def __init__(self, keys: Sequence[str]) -> None:
        self.steps: list[int] = []
        self.times: list[float] = []
        self.values: dict[str, list[float | None]] = {key: [] for key in keys}

    def add(self, points: Mapping[str, Any]) -> None:
        """Append a chunk: `steps`, `times`, and `metrics` by name, lists of one length."""
        steps, metrics = points["steps"], points["metrics"]
        self.steps += steps
        self.times += points["times"]
        nothing = [None] * len(steps)
        for key, column in self.values.items():
            column += metrics.get(key, nothing)

    def arrays(self) -> Arrays:
        """Everything by step; a step that came twice as it came last."""
        steps, newest = np.unique(np.array(self.steps[::-1], dtype=np.int64), return_index=True)
        kept = len(self.steps) - 1 - newest
        columns = {key: np.array(column, dtype=np.float64)[kept] for key, column in self.values.items()}
        recorded = {key: values for key, values in columns.items() if not np.isnan(values).all()}
        return Arrays(steps, np.array(self.times, dtype=np.float64)[kept], recorded)
