"""A sweep's curves as the page draws them: for each config and stage a line, the thinned mean over its seeds."""

import math
from collections.abc import Container, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from sweep_service.sweep.records import Trial

MAX_POINTS: Final = 240
"""Largest number of points in one line; each point stands for one or more neighbouring steps."""
_ALL_POINTS: Final = 12_000
_MIN_POINTS: Final = 40

Values = npt.NDArray[np.float64]
Line = tuple[str, str, str]
"""A config's id, a stage, a metric."""


class LinePoints(NamedTuple):
    """The points of a line, each for one step or several neighbouring ones; steps without a value are left out."""

    x: list[float]
    """Mean number of the steps that have a value."""
    mean: list[float]
    """Mean over these steps of the mean over seeds."""
    low: list[float]
    """Smallest value of any seed at any of these steps."""
    high: list[float]
    n: list[int]
    """Number of seeds that have a value."""


def thinning(steps: int, configs: int) -> int:
    """Return the number of neighbouring steps that become one point, so that a page of many configs stays light."""
    points = min(MAX_POINTS, max(_MIN_POINTS, _ALL_POINTS // max(1, configs)))
    return max(1, math.ceil(steps / points))


class MeanCurves:
    """Collects trials' values by step; a later value of a step replaces an earlier one."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._values: dict[Line, dict[str, Values]] = {}
        self._points: dict[Line, LinePoints] = {}

    def add(self, trial: Trial, steps: Sequence[int], metrics: Mapping[str, Sequence[float | None]]) -> None:
        """Take a trial's values at these steps."""
        for key, values in metrics.items():
            line = (trial.config_id, trial.stage.value, key)
            seeds = self._values.setdefault(line, {})
            if trial.id not in seeds:
                seeds[trial.id] = np.full(trial.total_steps + 1, np.nan)
            seeds[trial.id][list(steps)] = [math.nan if value is None else value for value in values]
            self._points.pop(line, None)

    def lines(self, keys: Container[str]) -> dict[Line, LinePoints]:
        """Return the points of these metrics' lines; those of lines without new values are not computed again."""
        for line, seeds in self._values.items():
            if line not in self._points and line[2] in keys:
                self._points[line] = line_points([*seeds.values()], self._width)
        return self._points

    def recorded(self, trial: Trial, key: str) -> list[float]:
        """Return the values that a trial has recorded of a metric, in order."""
        values = self._values.get((trial.config_id, trial.stage.value, key), {}).get(trial.id)
        return [] if values is None else values[~np.isnan(values)].tolist()

    def latest(self, trial: Trial, key: str) -> float | None:
        """Return the value at the last step that has one."""
        values = self.recorded(trial, key)
        return values[-1] if values else None


def line_points(seeds: Sequence[Values], width: int) -> LinePoints:
    """Return the mean over seeds in groups of `width` steps.

    Args:
        seeds: for each seed a value for every step from 0, NaN for none; all of one length.
    """
    length = -(-len(seeds[0]) // width) * width
    padded = np.full((len(seeds), length), np.nan)
    padded[:, : len(seeds[0])] = seeds
    grid = padded.reshape(len(seeds), -1, width)  # seed, group, step in the group
    counts = (~np.isnan(grid)).sum(axis=0)
    means = np.nansum(grid, axis=0) / np.maximum(counts, 1)  # 0 at a step without a value
    weight = (counts > 0).sum(axis=1)
    used = np.flatnonzero(weight)
    x = np.where(counts > 0, np.arange(length).reshape(-1, width), 0).sum(axis=1)[used] / weight[used]
    mean = means.sum(axis=1)[used] / weight[used]
    low, high = (bound.reduce(grid, axis=(0, 2))[used] for bound in (np.fmin, np.fmax))
    return LinePoints(_short(x), _short(mean), _short(low), _short(high), counts.max(axis=1)[used].tolist())


def _short(values: Values) -> list[float]:
    """Round to six significant digits, which is more than a screen can show."""
    return [float(f"{value:.6g}") for value in values.tolist()]
