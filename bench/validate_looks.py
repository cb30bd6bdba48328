"""How often a report says AHEAD wrongly at any of several looks: seeds are bought until it does, or ten times.

    python bench/validate_looks.py [--runs 4000] [--processes 4]    docs/statistics.md's table of looks

No config is better than another. The first look has 4 confirm seeds; each further one has 2 more, bought because the
last one decided nothing. The exit code is 1 if more than 5 % of the sweeps end with AHEAD.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
from scipy.stats import beta

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.validate_report import Drawn, Row, World, run_sweep
from sweep_service.report.build import build
from sweep_service.report.facts.report_inputs import ReportInputs
from sweep_service.sweep.records import Stage

LOOKS: Final = tuple(range(4, 23, 2))
"""Number of confirm seeds at each look."""
FALSE: Final = 0.05
WORLDS: Final[dict[str, World]] = {"Gaussian": Drawn(0), "heavy tails": Drawn(0, heavy=True)}
_BATCH: Final = 100


def at_look(inputs: ReportInputs, look: int, aware: bool) -> ReportInputs:
    """Return what a report sees at a look, whose number it is told or not."""
    return replace(with_seeds(inputs, LOOKS[look]), looks=look + 1 if aware else 1)


def with_seeds(inputs: ReportInputs, seeds: int) -> ReportInputs:
    """Return what a report sees of a sweep that has trained so many of its confirm seeds."""
    confirmed = sorted({trial.seed for trial in inputs.trials if trial.stage is Stage.CONFIRM})[:seeds]
    trials = [trial for trial in inputs.trials if trial.stage is Stage.TUNE or trial.seed in confirmed]
    return replace(inputs, trials=tuple(trials))


def first_better(inputs: ReportInputs, aware: bool) -> int | None:
    """Return the look at which the report puts a config ahead first, by either word; None if it never does."""
    for look in range(len(LOOKS)):
        if build(at_look(inputs, look, aware)).verdict.outcome.sign == 1:
            return look
    return None


def run_batch(world: World, seed: int, batch: int, runs: int) -> list[tuple[int | None, int | None]]:
    """Return the looks that say AHEAD first, of reports that know of the looks before and of reports that do not."""
    rng = np.random.default_rng([seed, batch])
    row = Row("", world, LOOKS[-1], differ=False)
    sweeps = (run_sweep(row, rng)[0] for _ in range(runs))
    return [(first_better(inputs, aware=True), first_better(inputs, aware=False)) for inputs in sweeps]


def line(name: str, firsts: Sequence[int | None]) -> str:
    """Return one line of the table: the share of sweeps that have said AHEAD up to some looks."""
    shares = [sum(first is not None and first <= look for first in firsts) / len(firsts) for look in (0, 1, 2, 4, 9)]
    return f"| {name} | {' | '.join(f'{share:.1%}' for share in shares)} | {bound(firsts):.1%} |"


def bound(firsts: Sequence[int | None]) -> float:
    """Return the 99 % upper bound of the share of sweeps that say AHEAD at any look."""
    hits = sum(first is not None for first in firsts)
    return float(beta.ppf(0.99, hits + 1, len(firsts) - hits))


def main() -> int:
    """Print the table; return the exit code."""
    parser = argparse.ArgumentParser(description="How often looking again says AHEAD wrongly.")
    parser.add_argument("--runs", type=int, default=4000, help="of each world")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    asked = parser.parse_args()
    print("| world | 1 look | 2 | 3 | 5 | 10 | 99 % bound |\n| --- | --- | --- | --- | --- | --- | --- |", flush=True)
    missed = False
    with ProcessPoolExecutor(asked.processes) as pool:
        for number, (name, world) in enumerate(WORLDS.items()):
            batches = range(-(-asked.runs // _BATCH))
            parts = [pool.submit(run_batch, world, number, batch, _BATCH) for batch in batches]
            firsts = [pair for part in parts for pair in part.result()]
            print(line(name, [aware for aware, _ in firsts]), flush=True)
            print(line(f"{name}, each look as if it were the first", [plain for _, plain in firsts]), flush=True)
            missed |= bound([aware for aware, _ in firsts]) > FALSE
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
