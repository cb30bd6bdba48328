"""How often doing what a report advises shows the difference that it promises to find, and as often as it says.

    python bench/validate_purchases.py [--runs 500] [--processes 4]    lines of docs/statistics.md's table

Every point of the space is better than the comparators by exactly what matters (`objective.relevant`). Sweeps whose
first report decides nothing buy the seeds that it proposes, and the report of all seeds together is read. The exit code
is 1 if fewer have an interval above zero than was promised, by more than the simulation's error. Where some runs are of
a lower kind that first looks may not show, the low end of the range counts as the promise.
"""

import argparse
import math
import os
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.simulated_sweeps import Row, run_sweep
from bench.validate_looks import with_seeds
from bench.worlds import Arms, Drawn, Lucky, Numbers, Results
from sweep_service.report.facts.report_inputs import ReportInputs
from sweep_service.report.sweep_facts import Facts
from sweep_service.sweep.records import Role

RELEVANT: Final = 0.02
MOST_SEEDS: Final = 100
"""Seeds that a sweep can have at most; one that is advised to have more is left out, and counted."""
_BATCH: Final = 100


@dataclass(frozen=True)
class Lapsing(Drawn):
    """Some runs of every config end lower, but are no ruins: a second mode, which few seeds may not show."""

    lapses: float = 0.1
    """Share of these runs."""
    lower: float = 0.1

    def train(self, arms: Arms, rng: np.random.Generator, which: Numbers, seeds: int) -> Results:
        """Draw the results of trials."""
        sound = super().train(arms, rng, which, seeds)
        lapsed_AS = rng.random(sound.values_AS.shape) < self.lapses
        return replace(sound, values_AS=sound.values_AS - self.lower * lapsed_AS)


@dataclass(frozen=True)
class Gaining:
    """A world in which every point of the space is better than the comparators by what matters, or by another gain."""

    world: Drawn | Lucky
    gain: float = RELEVANT

    def deal(self, rng: np.random.Generator) -> Arms:
        """Draw one sweep's configs."""
        arms = self.world.deal(rng)
        means_A = arms.means_A + np.append(np.full(arms.points, self.gain), np.zeros(len(arms.means_A) - arms.points))
        dealt = arms.source if isinstance(arms.source, Lucky) else self.world
        return replace(arms, means_A=means_A, source=replace(self, world=dealt))

    def train(self, arms: Arms, rng: np.random.Generator, which: Numbers, seeds: int) -> Results:
        """Draw the results of trials."""
        return self.world.train(arms, rng, which, seeds)


@dataclass(frozen=True)
class Kind:
    """One line of the table."""

    name: str
    world: Gaining
    first: int
    """Number of confirm seeds at the first look; 0 for a sweep without a confirm stage."""
    top_k: int = 2


KINDS: Final = (
    *(Kind(f"error sd {sd:g}", Gaining(Drawn(0, unit=sd)), 4) for sd in (0.012, 0.018, 0.03)),
    Kind("error sd 0.018", Gaining(Drawn(0, unit=0.018)), 8),
    Kind("error sd 0.018, heavy tails", Gaining(Drawn(0, heavy=True, unit=0.018)), 4),
    *(
        Kind("error sd 0.018, 10 % of the runs are 0.1 lower", Gaining(Lapsing(0, unit=0.018)), first)
        for first in (4, 8)
    ),
    Kind("error sd 0.025, 10 % of the runs are 0.1 lower", Gaining(Lapsing(0, unit=0.025)), 4),
    Kind("error sd 0.018, one candidate", Gaining(Drawn(0, unit=0.018)), 3, top_k=1),
    *(
        Kind(f"{problems} problems, luck 0.05", Gaining(Lucky(problems, 0.05)), first)
        for problems, first in (
            (1000, 3),
            (500, 2),
            (500, 3),
            (500, 6),
            (200, 4),
            (100, 4),
            (1000, 0),
            (500, 0),
            (100, 0),
        )
    ),
    *(Kind(f"error sd {sd:g}", Gaining(Drawn(0, unit=sd)), 0) for sd in (0.006, 0.012)),
)


@dataclass(frozen=True)
class Bought:
    """The seeds that a sweep bought, the promise that it got for them, and their answer."""

    seeds: int
    promised: float
    low: float
    high: float
    shown: bool
    """Whether the interval lies above zero."""
    ahead: bool


def at_start(kind: Kind, inputs: ReportInputs) -> ReportInputs:
    """Return what the first report sees of a sweep; without confirm seeds it has no confirm stage."""
    seen, spec = with_seeds(inputs, kind.first), inputs.sweep.spec
    if kind.first:
        return seen
    plan = spec.model_copy(update={"seeds": spec.seeds.model_copy(update={"confirm": None})})
    own = [config for config in inputs.configs if config.roles != (Role.MATCHED,)]
    return replace(seen, sweep=inputs.sweep.model_copy(update={"spec": plan}), configs=tuple(own))


def buy(kind: Kind, inputs: ReportInputs) -> Bought | int | None:
    """Buy what the first report advises; a number of seeds that are too many, None where it promises nothing."""
    advice = Facts(at_start(kind, inputs)).verdict.next
    if advice is None or not advice.more_seeds or advice.power is None:
        return None
    seeds = kind.first + advice.more_seeds
    if seeds > MOST_SEEDS:
        return seeds
    verdict = Facts(replace(with_seeds(inputs, seeds), looks=2 if kind.first else 1)).verdict
    low, high = advice.power_range or (math.nan, math.nan)
    found = verdict.comparison
    shown = found is not None and found.low is not None and found.low > 0
    return Bought(advice.more_seeds, advice.power, low, high, shown, verdict.outcome.sign == 1)


def run_batch(kind: Kind, seed: int, batch: int, runs: int) -> list[Bought | int | None]:
    """Do a part of a line's runs; the same arguments give the same runs."""
    rng = np.random.default_rng([seed, batch])
    row = Row("", kind.world, MOST_SEEDS, differ=True, top_k=kind.top_k)
    return [buy(kind, run_sweep(row, rng)[0]) for _ in range(runs)]


def line(kind: Kind, found: Sequence[Bought | int | None]) -> tuple[str, bool]:
    """Return one line of the table, and whether it keeps the promise."""
    bought = [one for one in found if isinstance(one, Bought)]
    too_many = sum(isinstance(one, int) for one in found) / len(found)
    if not bought:
        return f"| {kind.name} | {kind.first} | 0% | {too_many:.1%} |  |  |  |  |  |", True
    names = "promised", "low", "high", "seeds", "shown", "ahead"
    promised, low, high, seeds, shown, ahead = (
        float(np.mean([getattr(one, name) for one in bought])) for name in names
    )
    least = low if isinstance(kind.world.world, Lapsing) else promised
    error = math.sqrt(least * (1 - least) / len(bought))
    reach = "" if math.isnan(low) else f"{low:.0%} to {high:.0%}"
    cells = [kind.name, str(kind.first), f"{len(bought) / len(found):.0%}", f"{too_many:.1%}", f"{seeds:.1f}"]
    cells += [f"{promised:.1%}", reach, f"{shown:.1%} ± {2 * error:.1%}", f"{ahead:.1%}"]
    return f"| {' | '.join(cells)} |", shown >= least - 3 * error


def main() -> int:
    """Print the table; return the exit code."""
    parser = argparse.ArgumentParser(description="How often bought seeds show what was promised.")
    parser.add_argument("--runs", type=int, default=500, help="of each line")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", default="", help="lines whose world has this in its name")
    asked = parser.parse_args()
    head = ("world", "confirm seeds", "were advised to buy", "more than 100", "seeds bought", "promised", "range")
    head += ("interval above zero then", "AHEAD then")
    print(f"| {' | '.join(head)} |\n|{' --- |' * len(head)}", flush=True)
    missed = list[str]()
    with ProcessPoolExecutor(asked.processes) as pool:
        for number, kind in enumerate(KINDS):
            if asked.only not in kind.name:
                continue
            sizes = [min(_BATCH, asked.runs - done) for done in range(0, asked.runs, _BATCH)]
            parts = [pool.submit(run_batch, kind, number, batch, size) for batch, size in enumerate(sizes)]
            text, kept = line(kind, [one for part in parts for one in part.result()])
            print(text, flush=True)
            missed += [] if kept else [f"{kind.name}, {kind.first} seeds"]
    if missed:
        print("Fewer than promised:", *missed, sep="\n  ", file=sys.stderr)
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
