"""How often a word is false where hardware or packages change midway, and that moves each config by its own amount.

    python bench/validate_batches.py [--runs 2000] [--processes 2]    lines of docs/statistics.md's table

No config is better than another over batches; in each of the two batches every config has an effect of its own. The
trials go seed by seed, and the change comes at any of the confirm trials. A word is held against the difference in the
batch that the report names, the first one where all runs of the pair are of one. The exit code is 1 if more than 5 % of
the sweeps have a false word.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.simulated_sweeps import Row, arm_of, run_sweep
from bench.truths import Truth, is_false
from bench.worlds import LEVEL, Arms, Drawn, Flags, Floats, Numbers, Results
from sweep_service.report.facts.report_inputs import ReportInputs
from sweep_service.report.model import Outcome
from sweep_service.report.sweep_facts import Facts
from sweep_service.sweep.records import Stage

NOTES: Final = ({"hardware": "H100", "torch": "2.13.0"}, {"hardware": "H200", "torch": "2.13.0"})
FALSE: Final = 0.05
SEEDS: Final = 8
UNIT: Final = 0.02
"""Standard deviation of an error."""
_PART: Final = 25


class Seen(NamedTuple):
    """The word of a report, and whether it is false."""

    outcome: Outcome
    false: bool


@dataclass(frozen=True)
class TwoBatches:
    """Results as those of `Drawn` without differences, to which each batch adds an effect of each config."""

    share: float
    """Standard deviation of these effects, of the error's."""
    effects_AB: Floats = field(default_factory=lambda: np.zeros((0, 2)))
    change: float = 0.0
    """Share of the confirm trials before the change."""

    def deal(self, rng: np.random.Generator) -> Arms:
        """Draw one sweep's configs, and their effects."""
        arms = Drawn(0, unit=UNIT).deal(rng)
        effects_AB = rng.normal(0, self.share * UNIT, (len(arms.means_A), 2))
        return replace(arms, source=replace(self, effects_AB=effects_AB, change=float(rng.uniform(0.1, 0.9))))

    def later(self, configs: int, seeds: int) -> Flags:
        """Return by config and seed which trials of a stage trained in the second batch; none of the tune stage."""
        number_AS = np.arange(configs * seeds).reshape(seeds, configs).T
        return (number_AS >= self.change * configs * seeds) & (seeds == SEEDS)

    def train(self, arms: Arms, rng: np.random.Generator, which: Numbers, seeds: int) -> Results:
        """Draw the results of trials."""
        found = Drawn(0, unit=UNIT).train(arms, rng, which, seeds)
        first_A1, second_A1 = self.effects_AB[which, :1], self.effects_AB[which, 1:]
        effects_AS = np.where(self.later(len(which), seeds), second_A1, first_A1)
        return replace(found, values_AS=found.values_AS + effects_AS)


def noted(inputs: ReportInputs, world: TwoBatches) -> ReportInputs:
    """Return a sweep whose trials have noted their batches."""
    confirm = [trial.id for trial in inputs.trials if trial.stage is Stage.CONFIRM]
    later = world.later(len(confirm) // SEEDS, SEEDS).T.ravel()
    ids = {id_ for id_, is_later in zip(confirm, later, strict=True) if is_later}
    return replace(inputs, trained_with={trial.id: [NOTES[trial.id in ids]] for trial in inputs.trials})


def judge(inputs: ReportInputs, effects_AB: Floats, places: dict[str, int]) -> Seen | None:
    """Hold the verdict against the truth in its batch; None without a comparison."""
    tables = Facts(inputs)
    if (found := tables.verdict.comparison) is None:
        return None
    (note,) = tables.homes[found.config_id] or {tuple(sorted(NOTES[0].items()))}
    batch = [tuple(sorted(one.items())) for one in NOTES].index(note)
    one, other = (Truth(LEVEL + effects_AB[places[id_], batch]) for id_ in found.pair)
    return Seen(found.outcome, is_false(found.outcome, one, other, inputs.sweep.spec.objective.relevant))


def run_part(share: float, batch: int, runs: int) -> list[tuple[Seen | None, Seen | None]]:
    """Return the words of reports that know of the batches, and of those that do not."""
    rng = np.random.default_rng([int(100 * share), batch])
    row, seen = Row("", TwoBatches(share), SEEDS, differ=False), list[tuple[Seen | None, Seen | None]]()
    for _ in range(runs):
        inputs, arms = run_sweep(row, rng)
        world = arms.source
        assert isinstance(world, TwoBatches)
        places = {config.id: arm_of(config, arms) for config in inputs.configs}
        alike_AB = np.zeros_like(world.effects_AB)
        seen.append((judge(noted(inputs, world), world.effects_AB, places), judge(inputs, alike_AB, places)))
    return seen


def line(name: str, seen: Sequence[Seen | None]) -> str:
    """Return one line of the table."""
    words = [one for one in seen if one is not None]
    decided = sum(one.outcome.sign is not None for one in words) / len(seen)
    few = sum(one is None or one.outcome is Outcome.INSUFFICIENT for one in seen) / len(seen)
    return f"| {name} | {sum(one.false for one in words) / len(seen):.1%} | {decided:.0%} | {few:.0%} |"


def main() -> int:
    """Print the table; return the exit code."""
    parser = argparse.ArgumentParser(description="How often a word is false where batches move configs.")
    parser.add_argument("--runs", type=int, default=2000, help="of each world")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    asked = parser.parse_args()
    print("| sd of config x batch, of the error's | false words | a word | INSUFFICIENT |\n| --- | --- | --- | --- |")
    missed = False
    with ProcessPoolExecutor(asked.processes) as pool:
        for share in (0.5, 1.0):
            sizes = [min(_PART, asked.runs - done) for done in range(0, asked.runs, _PART)]
            parts = [pool.submit(run_part, share, batch, size) for batch, size in enumerate(sizes)]
            seen = [pair for part in parts for pair in part.result()]
            knows = [one for one, _ in seen]
            print(line(f"{share:g}", knows), flush=True)
            print(line(f"{share:g}, batches unknown", [one for _, one in seen]), flush=True)
            missed |= sum(one is not None and one.false for one in knows) > FALSE * len(knows)
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
