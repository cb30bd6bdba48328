"""How wide the verdict's intervals are, and how often it finds a difference, beside an oracle, where no run is ruined.

    python bench/validate_power.py [--runs 1000] [--processes 4]    lines of docs/statistics.md's table

Every point of the space is better than the comparators by one or two times what matters (`objective.relevant`). The
oracle knows that no run is ruined, and how noisy configs are beside each other. The exit code is 1 if a target is
missed.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.simulated_sweeps import Row, arm_of, simulate
from bench.validate_purchases import RELEVANT, Gaining
from bench.validate_report import POWER, oracle_error
from bench.worlds import Drawn
from sweep_service.report.model import Outcome
from sweep_service.report.statistics.critical_values import lower_critical, student_critical

SEEDS: Final = (4, 8, 16, 30)
"""Numbers of confirm seeds."""
SD: Final = 0.015
"""Standard deviation of a run's error."""
WIDTH: Final = 1.1
"""Largest half width, relative to the oracle's."""
_BATCH: Final = 100


@dataclass(frozen=True)
class Found:
    """Words and width of one simulated sweep, and the oracle's."""

    outcome: Outcome
    half_width: float
    oracle: bool
    """True if the oracle's interval lies above zero."""
    oracle_half_width: float


def find(row: Row, rng: np.random.Generator) -> Found:
    """Run one sweep, and read its verdict."""
    report, arms = simulate(row, rng)
    comparison = report.verdict.comparison
    assert comparison is not None
    assert comparison.low is not None
    assert comparison.high is not None
    error, df = oracle_error(report, arms, {config.id: arm_of(config, arms) for config in report.configs})
    critical = lower_critical(comparison.family, df)
    return Found(
        outcome=report.verdict.outcome,
        half_width=(comparison.high - comparison.low) / 2,
        oracle=comparison.difference > critical * error,
        oracle_half_width=(critical + student_critical(df)) / 2 * error,
    )


def run_batch(times: int, seeds: int, batch: int, runs: int) -> list[Found]:
    """Do a part of a line's runs; the same arguments give the same runs."""
    rng = np.random.default_rng([times, seeds, batch])
    row = Row("", Gaining(Drawn(0, unit=SD), times * RELEVANT), seeds, differ=True)
    return [find(row, rng) for _ in range(runs)]


def line(times: int, seeds: int, found: Sequence[Found]) -> tuple[str, list[str]]:
    """Return one line of the table, and the targets that it misses."""
    ahead, better, oracle, width, oracle_width = (
        float(np.mean(values))
        for values in (
            [one.outcome.sign == 1 for one in found],
            [one.outcome is Outcome.BETTER for one in found],
            [one.oracle for one in found],
            [one.half_width for one in found],
            [one.oracle_half_width for one in found],
        )
    )
    cells = [f"{times * RELEVANT:g}", str(seeds), f"{width:.4f}", f"{width / oracle_width:.2f}"]
    cells += [f"{share:.0%}" for share in (ahead, better, oracle)]
    error = 2 * float(np.std([one.oracle for one in found])) / len(found) ** 0.5
    targets = {
        "width": width <= WIDTH * oracle_width,
        "power": ahead >= POWER[min(seeds, max(POWER))] * oracle - error,
    }
    return f"| {' | '.join(cells)} |", [name for name, met in targets.items() if not met]


def main() -> int:
    """Print the table; return the exit code."""
    parser = argparse.ArgumentParser(description="How wide intervals are, and how often differences are found.")
    parser.add_argument("--runs", type=int, default=1000, help="of each line")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    asked = parser.parse_args()
    head = "true difference", "confirm seeds", "half width", "of the oracle's", "AHEAD or BETTER", "BETTER", "oracle"
    print(f"| {' | '.join(head)} |\n|{' --- |' * len(head)}", flush=True)
    missed = list[str]()
    sizes = [min(_BATCH, asked.runs - done) for done in range(0, asked.runs, _BATCH)]
    with ProcessPoolExecutor(asked.processes) as pool:
        for times in (1, 2):
            for seeds in SEEDS:
                parts = [pool.submit(run_batch, times, seeds, batch, size) for batch, size in enumerate(sizes)]
                text, short = line(times, seeds, [one for part in parts for one in part.result()])
                print(text, flush=True)
                missed += [f"{times * RELEVANT:g}, {seeds} seeds: {name}" for name in short]
    if missed:
        print("Targets missed:", *missed, sep="\n  ", file=sys.stderr)
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
