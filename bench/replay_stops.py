"""How much rules that end runs early save, and how often they lose the best: replayed on grids of known truth.

    python bench/replay_stops.py [--grids 1000] [--processes 2] [--only WORLD]    the table of docs/early_stopping.md

The exit code is 1 if `paired` drops the best in more than its level of the grids of a world without ruin that shows
late, or `rungs` trains more than its share.
"""

import argparse
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from scipy import stats

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.stop_worlds import LAST, RISKY, UNIT, WORLDS, Floats, Grid
from sweep_service.stopping import asha, median, paired, rungs
from sweep_service.stopping.replay import Judge, Replay

TOP_K: Final = 2
SLOTS: Final = 2
"""Runs at a time, on which judgements by arrival depend."""
LEVEL: Final = 0.05
RULES: Final[dict[str, Judge]] = {
    "plain": lambda standing: [],
    "paired": partial(paired.judge, level=LEVEL),
    "rungs": rungs.judge,
    "median": partial(median.judge, grace=0.25, min_runs=5),
    "asha": partial(asha.judge, grace=0.25, reduction=3),
}
PARTS: Final = "parts of runs"
"""Name of rungs that cut runs, at about the cost of `rungs`.

A quarter of the seeds gets half of the steps, then half of them whole runs, then all.
"""
_CHUNK: Final = 50


class Outcome(NamedTuple):
    """Outcome of one grid under a rule."""

    share: float
    """Share of the steps of the whole grid that were trained."""
    regret: float
    """Difference of the best contender and the chosen one, in standard errors."""
    lost: bool
    """True if the best one was dropped."""
    all_near_lost: bool
    """True if all that lie within what matters of the best were dropped."""


def parts_outcome(grid: Grid) -> Outcome:
    """Halve the contenders by parts of runs: the best half, then the best quarter, go on."""
    contenders, seeds, evaluations = grid.curves_CSE.shape
    left, trained_CS = np.arange(contenders), np.zeros((contenders, seeds))
    stages = ((seeds // 4, evaluations // 2, contenders // 2), (seeds // 2, evaluations, contenders // 4))
    for num_seeds, until, keep in (*stages, (seeds, evaluations, contenders)):
        wanted_CS = np.minimum(until, grid.collapsed_CS[left, :num_seeds] + 2)
        trained_CS[left, :num_seeds] = np.maximum(trained_CS[left, :num_seeds], wanted_CS)
        values_C = grid.curves_CSE[left, :num_seeds, until - LAST : until].mean(axis=(1, 2))
        left = left[np.argsort(-values_C)][:keep]
    return _judged(grid, trained_CS.sum() / grid.curves_CSE.size, {*left.tolist()}, int(left[0]))


def outcome(grid: Grid, name: str) -> Outcome:
    """Replay one grid under a rule."""
    if name == PARTS:
        return parts_outcome(grid)
    recorded = grid.recorded
    replay = Replay(recorded, RULES[name], top_k=TOP_K, slots=SLOTS)
    left, means = replay.run(), recorded.means()
    chosen = max(left, key=lambda contender: means[contender])
    return _judged(grid, replay.trained / recorded.size, {*left}, chosen)


def _judged(grid: Grid, share: float, left: set[int], chosen: int) -> Outcome:
    best = float(grid.means_C.max())
    near = {*np.flatnonzero(grid.means_C >= best - UNIT).tolist()}
    regret = (best - float(grid.means_C[chosen])) / grid.error
    return Outcome(share, regret, int(grid.means_C.argmax()) not in left, not near & left)


def _outcomes(world: str, name: str, first: int, count: int) -> list[Outcome]:
    """Replay some grids of a world, the same ones for each rule."""
    return [
        outcome(WORLDS[world].draw(np.random.default_rng([place, 32])), name) for place in range(first, first + count)
    ]


def upper(found: Floats) -> float:
    """Return the upper end of the 95 % interval of a share (Clopper-Pearson)."""
    return float(stats.beta.ppf(0.975, found.sum() + 1, max(1e-9, len(found) - found.sum())))


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--grids", type=int, default=1000, help="grids of each world (1000)")
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="processes (one for each core)")
    parser.add_argument("--only", default="", help="worlds whose name contains this")
    asked = parser.parse_args()
    print("| world | rule | steps | regret, SE | within 1 SE of the best | best dropped | all near dropped |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    failed, starts = False, range(0, asked.grids, _CHUNK)
    with ProcessPoolExecutor(asked.processes) as pool:
        for world, name in ((world, name) for world in WORLDS if asked.only in world for name in (*RULES, PARTS)):
            jobs = [pool.submit(_outcomes, world, name, at, min(_CHUNK, asked.grids - at)) for at in starts]
            found = [one for job in jobs for one in job.result()]
            share, regret, lost, near = (np.array(column, dtype=float) for column in zip(*found, strict=True))
            near_text = f"{near.mean():.1%} ({upper(near):.1%})"
            figures = f"{share.mean():.0%} | {regret.mean():.2f} | {(regret <= 1).mean():.1%} | {lost.mean():.1%}"
            print(f"| {world} | {name} | {figures} | {near_text} |", flush=True)
            failed |= name == "paired" and lost.mean() > LEVEL and world != RISKY
            failed |= name == "rungs" and share.mean() > rungs.SHARE
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main())
