"""A sweep's curves as the page draws them: a line per config and stage, the mean over its seeds, thinned."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from sweep_service.sweep.records import Trial

MAX_POINTS: Final = 240
"""Of one line; each stands for as many steps as that takes."""
_ALL_POINTS: Final = 12_000
_MIN_POINTS: Final = 40

Values = npt.NDArray[np.float64]


class Line(NamedTuple):
    """What a line shows."""

    config_id: str
    stage: str
    key: str


class CurvePoint(NamedTuple):
    """Some steps of a line: of one, or of `width` neighbours."""

    x: float
    """Mean of the steps that have a value."""
    mean: float
    """Over these steps of the mean over seeds."""
    low: float
    """Smallest value of any seed at any of these steps."""
    high: float
    n: int
    """Seeds that have a value."""


def thinning(steps: int, configs: int) -> int:
    """Return how many neighbouring steps become one point, so that a page of many configs stays light."""
    points = min(MAX_POINTS, max(_MIN_POINTS, _ALL_POINTS // max(1, configs)))
    return max(1, math.ceil(steps / points))


class MeanCurves:
    """Collects trials' values step by step; a value that comes again replaces the earlier one."""

    def __init__(self, width: int) -> None:
        self.width = width
        self._values: dict[tuple[str, str], Values] = {}
        self._members: dict[Line, list[str]] = {}
        self._changed: set[Line] = set()

    def add(self, trial: Trial, steps: Sequence[int], metrics: Mapping[str, Sequence[float | None]]) -> None:
        """Take a trial's values at these steps."""
        for key, values in metrics.items():
            line = Line(trial.config_id, trial.stage, key)
            known = self._values.get((trial.id, key))
            if known is None:
                known = self._values[trial.id, key] = np.full(trial.total_steps + 1, np.nan)
                self._members.setdefault(line, []).append(trial.id)
            known[list(steps)] = [math.nan if value is None else value for value in values]
            self._changed.add(line)

    def changed(self) -> Iterable[tuple[Line, dict[int, CurvePoint]]]:
        """Yield the lines with new values since this was asked last, each with its points by number."""
        changed, self._changed = sorted(self._changed), set()
        for line in changed:
            yield line, points([self._values[trial_id, line.key] for trial_id in self._members[line]], self.width)

    def recorded(self, trial_id: str, key: str) -> list[float]:
        """Return the values that a trial has recorded of a metric, in order."""
        values = self._values.get((trial_id, key))
        return [] if values is None else values[~np.isnan(values)].tolist()

    def latest(self, trial_id: str, key: str) -> float | None:
        """Return the value at the last step that has one."""
        found = self.recorded(trial_id, key)
        return found[-1] if found else None


def points(seeds: Sequence[Values], width: int) -> dict[int, CurvePoint]:
    """Return the mean over seeds in groups of `width` steps, by the group's number; groups without a value left out.

    Args:
        seeds: a value for every step from 0, NaN for none; all of one length.
    """
    length = -(-len(seeds[0]) // width) * width
    grid = np.full((len(seeds), length), np.nan)
    grid[:, : len(seeds[0])] = seeds
    have = ~np.isnan(grid)
    counts = have.sum(axis=0)
    means = np.where(have, grid, 0.0).sum(axis=0) / np.maximum(counts, 1)
    groups = (-1, width)
    steps = (counts > 0).reshape(groups)
    used = np.flatnonzero(steps.any(axis=1))
    weight = steps.sum(axis=1)[used]
    x = np.where(steps, np.arange(length).reshape(groups), 0).sum(axis=1)[used] / weight
    mean = np.where(steps, means.reshape(groups), 0.0).sum(axis=1)[used] / weight
    low = np.where(have, grid, np.inf).min(axis=0).reshape(groups).min(axis=1)[used]
    high = np.where(have, grid, -np.inf).max(axis=0).reshape(groups).max(axis=1)[used]
    n = counts.reshape(groups).max(axis=1)[used]
    rows = zip(used.tolist(), x.tolist(), mean.tolist(), low.tolist(), high.tolist(), n.tolist(), strict=True)
    return {group: CurvePoint(_short(a), _short(b), _short(c), _short(d), e) for group, a, b, c, d, e in rows}


def _short(value: float) -> float:
    return float(f"{value:.6g}")
