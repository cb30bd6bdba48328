"""Forecasts of what rules of early stopping would save in a sweep, and lose, by replays of a recorded grid. Pure."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any, Final

import numpy as np

from sweep_service.health.run_health import ACCURACY, RunCurves
from sweep_service.stopping.replay import Grid, Judge, Replay
from sweep_service.stopping.table import RULES
from sweep_service.sweep.early_stopping import EarlyStopping, Paired, Rungs
from sweep_service.sweep.plan import StoppingForecast
from sweep_service.sweep.series import TrialSeries
from sweep_service.sweep.spec import SweepSpec

REPLAYS: Final = 30
MOST: Final = 12, 8
"""Largest numbers of contenders and seeds that are replayed: two rules on so many take some seconds."""
LEAST: Final = 4
"""Smallest number of contenders, and of seeds, of a recorded grid that tells something."""
_FILE: Final = Path(__file__).with_name("recorded_grid.json")
_SLOTS: Final = 2


@dataclass(frozen=True)
class Recorded:
    """A grid whose every run was trained to its end."""

    name: str
    """Whose it is, in words."""
    grid: Grid

    @property
    def size(self) -> tuple[int, int]:
        """Number of contenders, and of seeds."""
        return len(self.grid.values_CSE), len(self.grid.values_CSE[0])


def recorded_runs(
    name: str,
    steps: Sequence[int],
    runs: Sequence[Sequence[Sequence[float]]],
    last: int,
    samples: int | None,
    ruin: float = 0.0,
) -> Recorded:
    """Return a grid of runs that were evaluated at these steps, the first one before training.

    Args:
        runs: values by contender and seed; a run that diverged has fewer than the others.
        last: number of last evaluations whose mean is a result.
        samples: number of judged samples of one evaluation, if it is known.
        ruin: result of a run that diverged, or is ended as ruined.
    """
    whole = len(steps)
    padded = [[[*values, *[0.0] * (whole - len(values))][1:] for values in seeds] for seeds in runs]
    ended = [[_ended(steps, values, last, samples) for values in seeds] for seeds in runs]
    return Recorded(name, Grid(padded, ended, last, ruin))


def _ended(steps: Sequence[int], values: Sequence[float], last: int, samples: int | None) -> int:
    """Return the number of evaluations after the first one after which a run is ended as ruined."""
    accuracy = np.array(values)
    at, none = np.array(steps[: len(values)]), np.empty(0, dtype=np.int64)
    series = TrialSeries("", none, at, np.zeros(len(values)), {ACCURACY: accuracy})
    lost = RunCurves(steps[-1], last, series, samples).lost_at
    if lost is not None:
        return max(1, [*steps].index(lost))
    return len(steps) if len(values) == len(steps) else max(1, len(values) - 1)


@cache
def kept_grid() -> Recorded:
    """Return the grid of the tiny policy that comes with the package; `make record-grid` trains it anew."""
    kept: Mapping[str, Any] = json.loads(_FILE.read_text(encoding="utf-8"))
    runs = [contender["runs"] for contender in kept["contenders"]]
    return recorded_runs("runs of the tiny policy that come with this version", kept["steps"], runs, 3, kept["samples"])


def forecasts(
    spec: SweepSpec, recorded: Recorded, contenders: int, hours: float, share: float
) -> tuple[StoppingForecast, ...]:
    """Replay the rules on parts of a grid that are as large as the sweep, or as large as the grid allows.

    Args:
        contenders: number of the sweep's points that a rule may drop.
        hours: of all trials without a rule.
        share: share of these hours that the contenders' tune trials take.
    Returns: one forecast without a rule, then one for each of the rules, the spec's own among them.
    """
    size = min(contenders, recorded.size[0], MOST[0]), min(len(spec.seeds.tune), recorded.size[1], MOST[1])
    rng = np.random.default_rng(0)
    grids = [_part(recorded.grid, size, rng) for _ in range(REPLAYS)]
    top_k = min(spec.chosen, size[0] - 1)
    rules: dict[str, EarlyStopping] = {"paired": Paired(), "rungs": Rungs()}
    if (own := spec.early_stopping) is not None:
        rules[own.rule] = own
    judges: dict[str, Judge] = {"none": lambda _: []} | {name: _judge(rule) for name, rule in rules.items()}
    return tuple(
        _forecast(name, judge, grids, top_k, spec.objective.relevant, hours, share) for name, judge in judges.items()
    )


def _judge(rule: EarlyStopping) -> Judge:
    return lambda standing: RULES[type(rule)].judge(standing, rule)


def _part(grid: Grid, size: tuple[int, int], rng: np.random.Generator) -> Grid:
    contenders, seeds = (
        sorted(rng.choice(len(of), number, replace=False).tolist())
        for of, number in zip((grid.values_CSE, grid.values_CSE[0]), size, strict=True)
    )
    values = [[grid.values_CSE[one][seed] for seed in seeds] for one in contenders]
    return Grid(values, [[grid.ended_CS[one][seed] for seed in seeds] for one in contenders], grid.last, grid.ruin)


def _forecast(
    name: str, judge: Judge, grids: Sequence[Grid], top_k: int, relevant: float, hours: float, share: float
) -> StoppingForecast:
    trained, missed = list[float](), list[bool]()
    for grid in grids:
        replay, means = Replay(grid, judge, top_k=top_k, slots=_SLOTS), grid.means()
        left = replay.run()
        trained.append(1.0 if name == "none" else replay.trained / grid.size)
        missed.append(max(means) - max(means[place] for place in left) > relevant)
    taken = [hours * (1 - share + share * part) for part in trained]
    return StoppingForecast(rule=name, hours=fmean(taken), most_hours=max(taken), loses_best=fmean(missed))
