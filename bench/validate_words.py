"""Measures how often the report's words are true where runs are ruined, in whole sweeps drawn from known truths.

    python bench/validate_words.py [--runs 2000] [--processes 4] [--only NAME]    lines of docs/statistics.md's table

What has to be true for each word is in `bench/truths.py`. The exit code is 1 if a target is missed.
"""

import argparse
import math
import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, cast

import numpy as np
from scipy.stats import beta, norm

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.simulated_sweeps import Row, arm_of, simulate
from bench.truths import Truth, is_false
from bench.word_worlds import BEYOND, KnownWorld, further_rows
from bench.worlds import LEVEL, POINTS, Arms, Numbers, Results, without_luck
from sweep_service.report import Report
from sweep_service.report.model import Outcome
from sweep_service.sweep.endings import Ending

SEED_SD: Final = 0.01
RELEVANT: Final = 0.02
FALSE: Final = 0.065
"""Upper end of the 95 % interval of the rate of false words."""
COVERAGE: Final = 0.92
"""Lower end of that of the coverage of intervals."""
CALLED_RUINED: Final = 0.01
"""Share of runs that may count as ruined where none is."""
_BATCH: Final = 250


@dataclass(frozen=True)
class Ruinous:
    """Results around a level, of which some runs are ruined."""

    gain: float = 0.0
    """Lead of some points of the space over all other arms, in sound runs."""
    rate: float = 0.0
    """Rate of ruin of those points; of all points if none is better."""
    ruin: float = 0.0
    """Mean result of a ruined run."""
    falls: bool = True
    """True if the curve of a ruined run falls at its end; else it never took off."""
    better: int = 1
    """Number of points that are better."""
    baseline_rate: float = 0.0
    sd: float = 0.015
    crash_below: float = 0.0
    """Result below which a run of the space crashes instead; the comparators never do."""
    lost: tuple[int, ...] = ()
    """Arms of whose runs below their 20 % quantile every second one is lost."""

    @property
    def ruins(self) -> bool:
        """Whether any run may be ruined."""
        return max(self.rate, self.baseline_rate, self.crash_below) > 0

    def deal(self, rng: np.random.Generator) -> Arms:
        """Return one sweep's configs; the better points lie somewhere in the space."""
        means_A = np.full(POINTS + 2, LEVEL)
        means_A[rng.permutation(POINTS)[: self.better]] += self.gain
        return Arms(means_A, np.full(len(means_A), self.sd), (LEVEL, 0.0), self, np.arange(len(means_A)))

    def truth(self, arms: Arms, place: int) -> Truth:
        """Return the truth about one arm."""
        of_space = place < POINTS
        mine = of_space and (arms.means_A[place] > LEVEL or not self.gain)
        rate = self.rate if mine else self.baseline_rate if place == POINTS else 0.0
        sound, ruin = float(arms.means_A[place]), self.ruin
        if self.crash_below and of_space:
            rate, sound, ruin = self._truncated(sound)
        return Truth(sound, rate, ruin)

    def _truncated(self, mean: float) -> tuple[float, float, float]:
        """Return the rate of runs that crash below a result, what the others score, and what these would have."""
        sd = math.hypot(self.sd, SEED_SD)
        cut = (self.crash_below - mean) / sd
        of_arm = self.sd**2 / sd  # the seed's part of it is in the comparator's result, too
        density, below = float(norm.pdf(cut)), float(norm.cdf(cut))
        return below, mean + density / (1 - below) * of_arm, mean - density / below * of_arm

    def train(self, arms: Arms, rng: np.random.Generator, which: Numbers, seeds: int) -> Results:
        """Draw the results of trials."""
        shape = len(which), seeds
        values_AS = arms.means_A[which, None] + rng.normal(0, self.sd, shape) + rng.normal(0, SEED_SD, seeds)
        rates_A = np.array([0 if self.crash_below else self.truth(arms, int(place)).rate for place in which])
        ruined_AS = rng.random(shape) < rates_A[:, None]
        low_AS = np.abs(self.ruin + rng.normal(0, self.sd, shape)) if self.ruin else np.zeros(shape)
        values_AS = np.where(ruined_AS, low_AS, values_AS)
        crashed_AS = (values_AS < self.crash_below) & (which < POINTS)[:, None]
        results = without_luck(values_AS, ruined_AS & self.falls)
        if self.lost:
            low_AS = values_AS < arms.means_A[which, None] + norm.ppf(0.2) * math.hypot(self.sd, SEED_SD)
            lost_AS = low_AS & np.isin(which, self.lost)[:, None] & (rng.random(shape) < 0.5)
            return replace(results, values_AS=np.where(lost_AS, np.nan, values_AS))
        return replace(results, values_AS=np.where(crashed_AS, np.nan, values_AS), ending=Ending.CRASHED)


@dataclass(frozen=True)
class Seen:
    """Words and figures of one simulated sweep, held against its truth; None for those that it lacks."""

    outcome: Outcome
    false: bool
    covered: bool | None
    """True if the interval among sound runs holds the difference of these."""
    average_covered: bool | None
    tie_holds: bool | None
    """True if the tie set holds the config that is truly best on average."""
    sound_tie_holds: bool | None
    bound_holds: bool
    called_ruined: float | None
    """Share of its runs that count as ruined, in a world where none is."""


def judge(world: KnownWorld, report: Report, arms: Arms) -> Seen | None:
    """Hold a report's words against the truth; None without a comparison."""
    found = report.verdict.comparison
    if found is None:
        return None
    truths = {row.id: world.truth(arms, arm_of(row, arms)) for row in report.configs}
    one, other = truths[found.config_id], truths[found.comparator_id]
    sound = average = None
    if found.low is not None and found.high is not None and not found.with_ruined:
        sound = found.low <= one.sound - other.sound <= found.high
    if found.average_low is not None and found.average_high is not None:
        average = found.average_low <= one.average - other.average <= found.average_high
    members = report.verdict.ties.members if report.verdict.ties else []
    best = max(members, key=lambda one: (truths[one.config_id].average, one.config_id), default=None)
    soundest = max(
        (one for one in members if one.num_runs),
        key=lambda one: (truths[one.config_id].sound, one.config_id),
        default=None,
    )
    return Seen(
        outcome=found.outcome,
        false=is_false(found.outcome, one, other, RELEVANT),
        covered=sound,
        average_covered=average,
        tie_holds=best.in_set if best else None,
        sound_tie_holds=soundest.in_sound_set if soundest else None,
        bound_holds=one.rate <= found.own.bound,
        called_ruined=None if world.ruins else float(np.mean([trial.ruined for trial in report.trials])),
    )


def rows() -> list[Row]:
    """Return the worlds with the numbers of confirm seeds."""
    alike = LEVEL / (0.8 + 0.2 * 0.55) - LEVEL  # what a fall to 55 % in 20 % of the runs takes back
    worlds = {
        "0.06 better, collapses in 10 %": (Ruinous(0.06, 0.1), (4, 8)),
        "0.06 better, collapses in 20 %": (Ruinous(0.06, 0.2), (4, 8)),
        "0.06 better, 20 % never take off, equal on average": (Ruinous(0.06, 0.2, 0.36, falls=False), (4, 8)),
        "better, 20 % fall to 55 %, equal on average": (Ruinous(alike, 0.2, 0.55 * (LEVEL + alike)), (4,)),
        "equal, all points collapse in 20 %": (Ruinous(0.0, 0.2), (4,)),
        "equal, all points collapse in 10 %": (Ruinous(0.0, 0.1), (6,)),
        "equal, points and baseline collapse in 15 %, sd 0.003": (
            Ruinous(0.0, 0.15, baseline_rate=0.15, sd=0.003),
            (4,),
        ),
        "equal, the baseline collapses in 20 %": (Ruinous(0.0, 0.0, baseline_rate=0.2), (8,)),
        "equal, bad runs of the space crash": (Ruinous(crash_below=LEVEL - 0.015), (4, 8)),
        "equal, bad runs of the space are lost": (Ruinous(lost=tuple(range(POINTS))), (4, 8, 16)),
        "equal, bad runs of the baseline are lost": (Ruinous(lost=(POINTS,)), (8,)),
        "0.12 better, collapses in 17 %, three points": (Ruinous(0.12, 1 / 6, better=3), (8, 30)),
        "0.2 better, collapses in 25 %": (Ruinous(0.2, 0.25), (8,)),
        "0.06 better, never ruined": (Ruinous(0.06), (3, 4, 30)),
        "0.15 better, never ruined": (Ruinous(0.15), (4, 16)),
        "0.06 better, the baseline collapses in 40 %": (Ruinous(0.06, baseline_rate=0.4), (8,)),
    }
    return [
        Row(name, world, seeds, differ=world.gain > 0, top_k=max(2, world.better))
        for name, (world, numbers) in worlds.items()
        for seeds in numbers
    ] + further_rows()


def run_batch(row: Row, seed: int, batch: int, runs: int) -> list[Seen]:
    """Do a part of a row's runs; the same arguments give the same runs."""
    rng = np.random.default_rng([seed, batch])
    world = cast("KnownWorld", row.world)
    judged = (judge(world, *simulate(row, rng)) for _ in range(runs))
    return [seen for seen in judged if seen is not None]


def run_rows(chosen: Sequence[Row], runs: int, processes: int) -> Iterator[tuple[Row, list[Seen]]]:
    """Run every row, `processes` batches at a time."""
    with ProcessPoolExecutor(processes) as pool:
        sizes = [min(_BATCH, runs - done) for done in range(0, runs, _BATCH)]
        parts = [
            (row, [pool.submit(run_batch, row, index, batch, size) for batch, size in enumerate(sizes)])
            for index, row in enumerate(chosen)
        ]
        for row, futures in parts:
            yield row, [seen for future in futures for seen in future.result()]


def share(values: Sequence[bool]) -> float:
    """Return the share of True; NaN of nothing."""
    return sum(values) / len(values) if values else math.nan


def ends(values: Sequence[bool]) -> tuple[float, float]:
    """Return the 95 % interval of a share (Clopper-Pearson)."""
    yes, no = sum(values), len(values) - sum(values)
    return (
        float(beta.ppf(0.025, yes, no + 1)) if yes else 0.0,
        float(beta.ppf(0.975, yes + 1, no)) if no else 1.0,
    )


def main() -> int:
    """Print the table; return the exit code."""
    parser = argparse.ArgumentParser(description="How often the report's words are true where runs are ruined.")
    parser.add_argument("--runs", type=int, default=2000, help="of each row")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", default="", help="rows whose world has this in its name")
    asked = parser.parse_args()
    head = "world", "confirm seeds", "words", "false (upper end)", "interval covers (lower end)", "average's covers"
    head += (
        "tie set holds the best on average",
        "among sound runs",
        "rate is below its bound",
        "sound runs called ruined",
    )
    print(f"| {' | '.join(head)} |\n| {' | '.join(['---'] * len(head))} |", flush=True)
    missed = list[str]()
    for row, seen in run_rows([row for row in rows() if asked.only in row.name], asked.runs, asked.processes):
        false = [one.false for one in seen]
        covered, average, tied, sound_tied = (
            [value for one in seen if (value := getattr(one, name)) is not None]
            for name in ("covered", "average_covered", "tie_holds", "sound_tie_holds")
        )
        bounds = [one.bound_holds for one in seen]
        words = Counter(one.outcome.split()[0] for one in seen)
        said = ", ".join(f"{word} {number / len(seen):.0%}" for word, number in words.most_common())
        cells = [row.name, str(row.seeds), said, f"{share(false):.1%} ({ends(false)[1]:.1%})"]
        cells += [f"{share(covered):.1%} ({ends(covered)[0]:.1%})"]
        cells += [f"{share(values):.1%}" for values in (average, tied, sound_tied, bounds)]
        called = [one.called_ruined for one in seen if one.called_ruined is not None]
        cells.append(f"{np.mean(called):.2%}" if called else "")
        print(f"| {' | '.join(cells)} |", flush=True)
        targets = {
            "false words": ends(false)[1] <= FALSE,
            "coverage": row.name in BEYOND or ends(covered)[0] >= COVERAGE,
            "coverage of averages": ends(average)[0] >= COVERAGE,
            "tie set": ends(tied)[1] >= 0.95,
            "tie set among sound runs": ends(sound_tied)[1] >= 0.95,
            "bound": share(bounds) >= 0.95,
            "sound runs called ruined": not called or np.mean(called) <= CALLED_RUINED,
        }
        missed += [f"{row.name}, {row.seeds} seeds: {name}" for name, met in targets.items() if not met]
    if missed:
        print("Targets missed:", *missed, sep="\n  ", file=sys.stderr)
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
