"""Grids of tune runs whose truth is known, and curves on the way to it, for rules that end runs early."""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from sweep_service.stopping.forecast import kept_grid
from sweep_service.stopping.replay import Grid as Recorded

Floats = npt.NDArray[np.float64]
UNIT: Final = 0.02
"""Standard deviation of what a seed adds to one config, at the end; also the difference that matters."""
LEVEL: Final = 0.6
FALLEN: Final = 0.05
"""Result of a run that has collapsed."""
_KEPT: Final = 0.8
"""Correlation of a run's error at one evaluation with that at the next, of 16."""
LAST: Final = 3
"""Number of last evaluations whose mean is a run's result."""


@dataclass(frozen=True)
class Grid:
    """Runs of some contenders on the same seeds."""

    curves_CSE: Floats
    """Value at each evaluation."""
    collapsed_CS: npt.NDArray[np.int64]
    """Place of the evaluation by which it shows that a run has collapsed; the number of evaluations if it never does.
    """
    means_C: Floats
    """Worth of each contender: the mean of its runs' ends."""
    error: float
    """Standard error of the difference of two contenders on all seeds."""
    ruin: float = FALLEN
    """Result of a run that has collapsed."""

    @property
    def recorded(self) -> Recorded:
        """The grid as it is replayed: a run that has collapsed is ended at the second evaluation that shows it."""
        return Recorded(self.curves_CSE.tolist(), (self.collapsed_CS + 2).tolist(), LAST, self.ruin)


@dataclass(frozen=True)
class Curves:
    """A kind of grid: how far contenders lie apart, and how their curves get there."""

    ratio: float
    """Standard deviation of the contenders' means, in units of one run's."""
    crossing: float = 0.0
    """Standard deviation of what sets curves apart at the start and is gone at the end, in units of means and runs."""
    late: float = 0.0
    """Share of the contenders that lie far below until they rise, late."""
    collapsing: float = 0.0
    """Share of the contenders that collapse in most of their runs."""
    risky: float = 0.0
    """Share of runs in which each contender but the first collapses; the others of its runs are 3 units better."""
    contenders: int = 12
    seeds: int = 8
    evaluations: int = 16

    def draw(self, rng: np.random.Generator) -> Grid:
        """Draw one grid."""
        shape = contenders, seeds, evaluations = self.contenders, self.seeds, self.evaluations
        means_C = self.ratio * rng.normal(size=contenders)
        if self.risky:
            means_C = np.where(np.arange(contenders) > 0, 3.0, 0.0)
        lead_C = self.crossing * max(1.0, self.ratio) * rng.normal(size=contenders)
        lead_C = np.where(rng.random(contenders) < self.late, -3 * max(1.0, self.ratio), lead_C)
        done_E = np.linspace(1 / evaluations, 1, evaluations)
        curves_CSE = (means_C[:, None] * np.sqrt(done_E) + lead_C[:, None] * (1 - done_E))[:, None, :]
        curves_CSE = curves_CSE + _errors(shape, rng) + rng.normal(size=(1, seeds, 1))
        curves_CSE = LEVEL + UNIT * curves_CSE
        collapsed_CS = np.full((contenders, seeds), evaluations)
        falls_C = rng.random(contenders) < self.collapsing
        rates_C = np.where(falls_C, 0.9, 0.0)
        if self.risky:
            rates_C = np.where(np.arange(contenders) > 0, self.risky, 0.0)
        falls_CS = rng.random((contenders, seeds)) < rates_C[:, None]
        collapsed_CS[falls_CS] = rng.integers(evaluations // 4, 3 * evaluations // 4, int(falls_CS.sum()))
        curves_CSE[np.arange(evaluations) >= collapsed_CS[..., None]] = FALLEN
        ends_C = LEVEL + UNIT * means_C
        ends_C = rates_C * FALLEN + (1 - rates_C) * ends_C
        return Grid(curves_CSE, collapsed_CS, ends_C, UNIT * math.sqrt(2 / seeds))


def _errors(shape: tuple[int, int, int], rng: np.random.Generator) -> Floats:
    """Draw what seeds add to each run, with a standard deviation of 1 for the mean of the last evaluations."""
    errors_CSE = np.empty(shape)
    last_CS = rng.normal(size=shape[:2])
    for place in range(shape[2]):
        last_CS = _KEPT * last_CS + math.sqrt(1 - _KEPT**2) * rng.normal(size=shape[:2])
        errors_CSE[:, :, place] = last_CS
    covariances = [_KEPT ** abs(one - other) for one in range(LAST) for other in range(LAST)]
    return errors_CSE / math.sqrt(sum(covariances) / LAST**2)


class Kept:
    """The recorded grid that comes with the package, its contenders and seeds in another order each time."""

    def draw(self, rng: np.random.Generator) -> Grid:
        """Draw one order. The mean of all recorded runs counts as a contender's worth."""
        grid = kept_grid().grid
        curves_CSE, ended_CS = np.array(grid.values_CSE), np.array(grid.ended_CS)
        contenders, seeds = rng.permutation(curves_CSE.shape[0]), rng.permutation(curves_CSE.shape[1])
        means_C = np.array(grid.means())[contenders]
        curves_CSE, ended_CS = curves_CSE[contenders][:, seeds], ended_CS[contenders][:, seeds]
        sound_CS = curves_CSE[(ended_CS > curves_CSE.shape[2]).all(axis=1), :, -grid.last :].mean(axis=2)
        spread = math.sqrt(sound_CS.var(axis=1, ddof=1).mean())
        return Grid(curves_CSE, ended_CS - 2, means_C, spread * math.sqrt(2 / len(seeds)), ruin=grid.ruin)


RISKY: Final = "all but the best are better by 3, but collapse in 20 % of runs"
"""The world in which no rule keeps a promise: ruin that has not shown yet."""
RECORDED: Final = "recorded grid of the embedded task"
WORLDS: Final = {
    **{f"config sd {ratio:g} x seed sd": Curves(ratio) for ratio in (0.36, 1, 2, 3.6)},
    **{f"crossing curves, {ratio:g}": Curves(ratio, crossing=1.5) for ratio in (0.36, 1, 2, 3.6)},
    **{f"late risers, {ratio:g}": Curves(ratio, late=0.3) for ratio in (0.36, 1, 2, 3.6)},
    "a third collapses, 1": Curves(1, collapsing=1 / 3),
    RECORDED: Kept(),
    RISKY: Curves(0, risky=0.2),
}
