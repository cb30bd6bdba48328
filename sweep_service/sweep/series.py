"""The metrics that one trial recorded, as arrays: a whole sweep of Python floats would not fit into memory."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

EVALUATION: Final = "eval/"
"""Prefix of the metrics that evaluations record; optimizer updates record all others."""

Steps = npt.NDArray[np.int64]
Values = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Series:
    """One metric over its steps."""

    steps: Steps
    """Number of optimizer updates made at each point, rising."""
    values: Values
    """Value at each step; NaN where none was recorded."""

    @property
    def present(self) -> "Series":
        """The same metric, at only those steps that have a value."""
        present = ~np.isnan(self.values)
        return self if present.all() else Series(self.steps[present], self.values[present])


@dataclass(frozen=True, eq=False)
class TrialSeries:
    """All requested metrics of one trial. Metrics of one kind share one array of steps."""

    trial_id: str
    steps: Steps
    """Steps of the metrics that optimizer updates recorded."""
    eval_steps: Steps
    """Steps of the metrics that evaluations recorded."""
    eval_times: Values
    """Time of each evaluation, in seconds since the Unix epoch."""
    metrics: Mapping[str, Values]
    """Values by metric, one for each step of its kind, NaN where there is none; a metric never recorded is left out."""

    def get(self, key: str) -> Series | None:
        """Return one metric; None if it was never recorded."""
        values = self.metrics.get(key)
        if values is None:
            return None
        return Series(self.eval_steps if key.startswith(EVALUATION) else self.steps, values)

    def arrays(self) -> Iterable[tuple[str, npt.NDArray[np.generic]]]:
        """Yield every array with its name, in a fixed order."""
        yield from (("steps", self.steps), ("eval_steps", self.eval_steps), ("eval_times", self.eval_times))
        yield from sorted(self.metrics.items())


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

    def arrays(self) -> tuple[Steps, Values, dict[str, Values]]:
        """Return steps, times, and values by metric, in the order of steps; a step that came twice has later values.

        Metrics that never had a value are left out.
        """
        steps, newest = np.unique(np.array(self.steps[::-1], dtype=np.int64), return_index=True)
        last = len(self.steps) - 1 - newest
        columns = {key: np.array(column, dtype=np.float64)[last] for key, column in self.values.items()}
        recorded = {key: values for key, values in columns.items() if not np.isnan(values).all()}
        return steps, np.array(self.times, dtype=np.float64)[last], recorded
