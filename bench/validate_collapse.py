"""How often the report's claims are true where runs collapse or crash: whole sweeps drawn from known truths.

    python bench/validate_collapse.py [--runs 10000] [--processes 4]    docs/statistics.md's table of collapses

One point of the space may be better than the rest while it does not collapse. A claim of BETTER unless the config
collapses in more than x % of its runs is false if it collapses no more often than that, and is not better on average.
The exit code is 1 if a target is missed.
"""

import argparse
import math
import os
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from scipy.stats import beta, norm

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.validate_report import Arms, Numbers, Results, Row, simulate
from sweep_service.report import Report
from sweep_service.report.model import Outcome
from sweep_service.sweep.endings import Ending

POINTS: Final = 9
LEVEL: Final = 0.6
RUIN: Final = 0.075
"""Mean result of a run that collapsed."""
SEED_SD: Final = 0.01
FALSE: Final = 0.05
COVERAGE: Final = 0.93
_BATCH: Final = 250


@dataclass(frozen=True)
class Collapsing:
    """Results around a level, of which each arm loses some runs entirely."""

    gain: float
    """By how much one point of the space is better than all other arms while it does not collapse."""
    rate: float
    """How often runs of that point collapse."""
    baseline_rate: float = 0.0
    sd: float = 0.015
    crash_below: float = 0.0
    """Result below which a run of the space crashes instead; the comparators never do."""

    def deal(self, rng: np.random.Generator) -> Arms:
        """Return one sweep's configs; the better point lies somewhere in the space."""
        means_A = np.full(POINTS + 2, LEVEL)
        means_A[rng.integers(POINTS)] += self.gain
        return Arms(means_A, np.full(len(means_A), self.sd), (LEVEL, 0.0), self, np.arange(len(means_A)))

    def rate_of(self, arms: Arms, place: int) -> float:
        """Return how often an arm collapses."""
        if place >= POINTS:
            return self.baseline_rate if place == POINTS else 0.0
        return self.rate if arms.means_A[place] > LEVEL or not self.gain else 0.0

    def mean_of(self, arms: Arms, place: int) -> float:
        """Return an arm's mean with its collapses."""
        rate = self.rate_of(arms, place)
        return float((1 - rate) * arms.means_A[place] + rate * RUIN)

    def while_it_lives(self, arms: Arms, place: int) -> float:
        """Return an arm's mean over its own part of the runs that do not crash, on the seeds of these."""
        if not self.crash_below or place >= POINTS:
            return float(arms.means_A[place])
        sd = math.hypot(self.sd, SEED_SD)
        cut = (self.crash_below - arms.means_A[place]) / sd
        lift = float(norm.pdf(cut) / norm.sf(cut)) * sd  # of the results that are left, of which the seed has a part
        return float(arms.means_A[place]) + lift * self.sd**2 / sd**2

    def train(self, arms: Arms, rng: np.random.Generator, which: Numbers, seeds: int) -> Results:
        """Draw the results of trials."""
        shape = len(which), seeds
        values_AS = arms.means_A[which, None] + rng.normal(0, self.sd, shape) + rng.normal(0, SEED_SD, seeds)
        rates_A = np.array([self.rate_of(arms, int(place)) for place in which])
        fell_AS = rng.random(shape) < rates_A[:, None]
        values_AS = np.where(fell_AS, rng.uniform(0, 2 * RUIN, shape), values_AS)
        crashed_AS = (values_AS < self.crash_below) & (which < POINTS)[:, None]
        return Results(np.where(crashed_AS, np.nan, values_AS), fell_AS, ending=Ending.CRASHED)


@dataclass(frozen=True)
class Seen:
    """What one simulated sweep claimed; None for what it did not claim."""

    better: bool
    without_condition: bool
    false: bool
    covered: bool | None
    bound_holds: bool


def judge(world: Collapsing, report: Report, arms: Arms) -> Seen | None:
    """Hold a report's claims against the truth; None without a comparison."""
    found = report.verdict.comparison
    if found is None:
        return None
    numbers = {config.id: (config.number - 2) % len(arms.means_A) for config in report.configs}
    one, other = numbers[found.config_id], numbers[found.comparator_id]
    whole = world.while_it_lives(arms, one) - world.while_it_lives(arms, other)
    average = world.mean_of(arms, one) - world.mean_of(arms, other)
    own, theirs = world.rate_of(arms, one), world.rate_of(arms, other)
    tolerated = 1.0 if found.tolerated is None else found.tolerated
    false = {
        Outcome.BETTER: average <= 1e-12 and own <= tolerated,
        Outcome.WORSE: average >= -1e-12 and theirs <= tolerated,
        Outcome.EQUIVALENT: abs(float(arms.means_A[one] - arms.means_A[other])) >= 0.02,
    }
    covered = None
    if found.low is not None and found.high is not None and not found.with_collapsed:
        covered = found.low <= whole <= found.high
    return Seen(
        better=found.outcome is Outcome.BETTER,
        without_condition=found.outcome is Outcome.BETTER and found.tolerated is None,
        false=false.get(found.outcome, False),
        covered=covered,
        bound_holds=own <= found.own.bound,
    )


def rows() -> list[Row]:
    """Return the worlds with the numbers of confirm seeds."""
    worlds = {
        "0.06 better, collapses in 10 %": (Collapsing(0.06, 0.1), (4, 6, 12)),
        "0.06 better, collapses in 20 %": (Collapsing(0.06, 0.2), (4, 6, 12, 30)),
        "0.06 better, never collapses": (Collapsing(0.06, 0.0), (3, 6, 30)),
        "0.1 better, collapses in 5 %": (Collapsing(0.1, 0.05), (6, 30)),
        "equal, all points collapse in 10 %": (Collapsing(0.0, 0.1), (4, 6)),
        "equal, the baseline collapses in 20 %": (Collapsing(0.0, 0.0, baseline_rate=0.2), (4, 6)),
        "equal, bad runs of the space crash": (Collapsing(0.0, 0.0, crash_below=LEVEL - 0.015), (4, 8)),
    }
    return [
        Row(name, world, seeds, differ=world.gain > 0) for name, (world, numbers) in worlds.items() for seeds in numbers
    ]


def run_batch(row: Row, seed: int, batch: int, runs: int) -> list[Seen]:
    """Do a part of a row's runs; the same arguments give the same runs."""
    rng = np.random.default_rng([seed, batch])
    assert isinstance(row.world, Collapsing)
    judged = (judge(row.world, *simulate(row, rng)) for _ in range(runs))
    return [seen for seen in judged if seen is not None]


def run_rows(runs: int, processes: int) -> Iterator[tuple[Row, list[Seen]]]:
    """Run every row, `processes` batches at a time."""
    with ProcessPoolExecutor(processes) as pool:
        sizes = [min(_BATCH, runs - done) for done in range(0, runs, _BATCH)]
        parts = [
            (row, [pool.submit(run_batch, row, index, batch, size) for batch, size in enumerate(sizes)])
            for index, row in enumerate(rows())
        ]
        for row, futures in parts:
            yield row, [seen for future in futures for seen in future.result()]


def share(values: Sequence[bool]) -> float:
    """Return the share of True."""
    return sum(values) / len(values)


def main() -> int:
    """Print the table; return the exit code."""
    parser = argparse.ArgumentParser(description="How often the report is right where runs collapse.")
    parser.add_argument("--runs", type=int, default=10_000, help="of each row")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    asked = parser.parse_args()
    head = "world", "confirm seeds", "BETTER", "without a condition", "false claims (99 % bound)", "interval covers"
    head += ("rate is below its bound",)
    print(f"| {' | '.join(head)} |\n| {' | '.join(['---'] * len(head))} |", flush=True)
    missed = list[str]()
    for row, seen in run_rows(asked.runs, asked.processes):
        false, covered = [one.false for one in seen], [one.covered for one in seen if one.covered is not None]
        bound = float(beta.ppf(0.99, sum(false) + 1, len(false) - sum(false)))
        holds = share([one.bound_holds for one in seen])
        cells = [row.name, str(row.seeds), f"{share([one.better for one in seen]):.0%}"]
        cells += [f"{share([one.without_condition for one in seen]):.0%}", f"{share(false):.1%} ({bound:.1%})"]
        cells += [f"{share(covered):.1%}", f"{holds:.1%}"]
        print(f"| {' | '.join(cells)} |", flush=True)
        targets = {"false claims": bound <= FALSE, "coverage": share(covered) >= COVERAGE, "bound": holds >= 0.95}
        missed += [f"{row.name}, {row.seeds} seeds: {name}" for name, met in targets.items() if not met]
    if missed:
        print("Targets missed:", *missed, sep="\n  ", file=sys.stderr)
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
