"""How often a report says AHEAD wrongly at any of several looks: seeds or values are added after each report.

    python bench/validate_looks.py [--runs 2000] [--processes 4]    lines of docs/statistics.md's table
    python bench/validate_looks.py --values                         its table of grids that grow

No config is better than another. With seeds, the first look has 4 confirm seeds; each further one has 2 more, bought
because the last one decided nothing, ten looks at most. With values, a grid of 4 gets 4 or 9 more after each of 6
reports, and the two best by the tune stage are confirmed each time. The exit code is 1 if more than 5 % of the sweeps
end with AHEAD, or have a tie set without the baseline, which is as good as any.
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

from bench.simulated_sweeps import Row, run_sweep
from bench.worlds import Drawn, World
from sweep_service.report.facts.report_inputs import ReportInputs
from sweep_service.report.facts.report_tables import ReportTables
from sweep_service.report.sweep_facts import Facts
from sweep_service.sweep.records import Stage

LOOKS: Final = tuple(range(4, 23, 2))
"""Number of confirm seeds at each look."""
FALSE: Final = 0.05
FIRST_VALUES: Final = 4
VALUE_LOOKS: Final = 7
"""Number of looks at a grid that grows."""
TOP_K: Final = 2
COMPARATORS: Final = 2
"""Number of configs that a sweep begins with: the baseline, and the DAPO arm."""
WORLDS: Final[dict[str, World]] = {"Gaussian": Drawn(0), "heavy tails": Drawn(0, heavy=True)}
_BATCH: Final = 100
_PART: Final = 25


def at_look(inputs: ReportInputs, look: int, aware: bool) -> ReportInputs:
    """Return what a report sees at a look, whose number it is told or not."""
    return replace(with_seeds(inputs, LOOKS[look]), looks=look + 1 if aware else 1)


def with_seeds(inputs: ReportInputs, seeds: int) -> ReportInputs:
    """Return what a report sees of a sweep that has trained so many of its confirm seeds."""
    confirmed = sorted({trial.seed for trial in inputs.trials if trial.stage is Stage.CONFIRM})[:seeds]
    trials = [trial for trial in inputs.trials if trial.stage is Stage.TUNE or trial.seed in confirmed]
    return replace(inputs, trials=tuple(trials))


def with_values(inputs: ReportInputs, look: int, more: int) -> ReportInputs:
    """Return what a report sees of a grid that got `more` values after each of some reports.

    Of the sweep that has all values, it sees those of this look, and the confirm trials of the comparators and of the
    configs that the tune stage has chosen at any look so far.
    """
    confirm = inputs.sweep.spec.seeds.confirm
    assert confirm is not None
    seeds = inputs.sweep.spec.seeds.model_copy(update={"confirm": confirm.model_copy(update={"top_k": TOP_K})})
    spec = inputs.sweep.spec.model_copy(update={"seeds": seeds})
    sweep, chosen = inputs.sweep.model_copy(update={"spec": spec}), set[str]()
    tune = [trial for trial in inputs.trials if trial.stage is Stage.TUNE]
    configs = inputs.configs
    for earlier in range(look + 1):
        configs = tuple(one for one in inputs.configs if one.number < COMPARATORS + FIRST_VALUES + earlier * more)
        present = {config.id for config in configs}
        tuned = tuple(trial for trial in tune if trial.config_id in present)
        chosen |= {*ReportTables(replace(inputs, sweep=sweep, configs=configs, trials=tuned)).candidates}
    chosen |= {config.id for config in configs if config.number < COMPARATORS}
    ids = {config.id for config in configs}
    trials = [one for one in inputs.trials if one.config_id in (ids if one.stage is Stage.TUNE else chosen)]
    return replace(inputs, sweep=sweep, configs=configs, trials=tuple(trials), looks=look + 1)


def seen_of_values(more: int, batch: int, runs: int) -> list[tuple[int | None, ...]]:
    """Return for each of some sweeps the first look that is wrong: AHEAD, or a tie set without the baseline.

    Told of the looks before, then as if each were the first.
    """
    rng = np.random.default_rng([more, batch])
    points = FIRST_VALUES + (VALUE_LOOKS - 1) * more
    row = Row("", Drawn(0, points=points), LOOKS[0], differ=False, top_k=points)
    seen = list[tuple[int | None, ...]]()
    for _ in range(runs):
        inputs, _ = run_sweep(row, rng)
        baseline = inputs.configs[0].id
        firsts: list[int | None] = [None] * 4
        for look in range(VALUE_LOOKS):
            here = with_values(inputs, look, more)
            for place, told in enumerate((here, replace(here, looks=1))):
                verdict = Facts(told).verdict
                wrong = (
                    verdict.outcome.sign == 1,
                    verdict.ties is not None
                    and any(not member.in_sound_set for member in verdict.ties.members if member.config_id == baseline),
                )
                for kind, is_wrong in enumerate(wrong):
                    if is_wrong and firsts[2 * kind + place] is None:
                        firsts[2 * kind + place] = look
        seen.append(tuple(firsts))
    return seen


def first_better(inputs: ReportInputs, aware: bool) -> int | None:
    """Return the look at which the report puts a config ahead first, by either word; None if it never does."""
    for look in range(len(LOOKS)):
        if Facts(at_look(inputs, look, aware)).verdict.outcome.sign == 1:
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


def values_table(runs: int, processes: int) -> int:
    """Print the table of grids that grow; return the exit code."""
    print("| world | 1 look | 2 | 3 | 5 | 7 | 99 % bound |\n| --- | --- | --- | --- | --- | --- | --- |", flush=True)
    kinds = (
        "AHEAD",
        "AHEAD, each look as if it were the first",
        "no baseline in the tie set",
        "the same, as if the first",
    )
    missed = False
    with ProcessPoolExecutor(processes) as pool:
        for more in (4, 9):
            sizes = [min(_PART, runs - done) for done in range(0, runs, _PART)]
            parts = [pool.submit(seen_of_values, more, batch, size) for batch, size in enumerate(sizes)]
            seen = [firsts for part in parts for firsts in part.result()]
            for kind, firsts in zip(kinds, zip(*seen, strict=True), strict=True):
                print(line(f"{more} more values: {kind}", firsts), flush=True)
            missed |= any(sum(one[kind] is not None for one in seen) > FALSE * len(seen) for kind in (0, 2))
    return int(missed)


def main() -> int:
    """Print the table; return the exit code."""
    parser = argparse.ArgumentParser(description="How often looking again says AHEAD wrongly.")
    parser.add_argument("--runs", type=int, default=2000, help="of each world")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--values", action="store_true", help="grids that grow, in place of seeds that are added")
    asked = parser.parse_args()
    if asked.values:
        return values_table(asked.runs, asked.processes)
    print("| world | 1 look | 2 | 3 | 5 | 10 | 99 % bound |\n| --- | --- | --- | --- | --- | --- | --- |", flush=True)
    missed = False
    with ProcessPoolExecutor(asked.processes) as pool:
        for number, (name, world) in enumerate(WORLDS.items()):
            batches = range(-(-asked.runs // _BATCH))
            parts = [pool.submit(run_batch, world, number, batch, _BATCH) for batch in batches]
            firsts = [pair for part in parts for pair in part.result()]
            print(line(name, [aware for aware, _ in firsts]), flush=True)
            print(line(f"{name}, each look as if it were the first", [plain for _, plain in firsts]), flush=True)
            missed |= sum(aware is not None for aware, _ in firsts) > FALSE * len(firsts)
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
