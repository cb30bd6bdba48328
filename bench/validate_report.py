"""How often the report is right: whole sweeps drawn from known truths, through selection, confirmation and `build()`.

    python bench/validate_report.py [--runs 2000] [--processes 4]    lines of docs/statistics.md's table
    python bench/validate_report.py --stress                          worlds beyond the targets
    python bench/validate_report.py --problems                        configs that are lucky on problems
    python bench/validate_report.py --rates                           spaces over learning rate and beta1
    python bench/validate_report.py --rules                           rules of early stopping
    python bench/validate_report.py --only "noisy baseline"           lines whose world has that in its name

The exit code is 1 if a target is missed.
"""

import argparse
import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
from scipy.stats import beta

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.simulated_sweeps import Row, arm_of, simulate
from bench.worlds import POINTS, RECORDED, Arms, Drawn, Floats, Lucky, Rates, Recorded, World
from sweep_service.report import Report
from sweep_service.report.model import ConfigRow, TrialRow
from sweep_service.report.statistics.critical_values import lower_critical, student_critical
from sweep_service.sweep.records import Stage

SEEDS: Final = (3, 4, 6)
"""Numbers of confirm seeds."""
COVERAGE: Final = 0.93
TOGETHER: Final = 0.95
FALSE_AHEAD: Final = 0.05
POWER: Final = {3: 0.8, 4: 0.8, 6: 0.9}
"""Smallest power relative to the oracle's, by confirm seeds; where configs collapse, the first for all."""
REGRET: Final = 1.1
_KNOWN: Final = 1_000_000  # degrees of freedom of a variance that is known
_BATCH: Final = 250


@dataclass(frozen=True)
class Seen:
    """What one simulated sweep showed; figures of the verdict are None where it gave no interval."""

    better: bool
    false_better: bool
    covered: bool | None
    half_width: float | None
    oracle_better: bool | None
    tie_set_holds: bool | None
    regret: float
    oracle_regret: float
    oracle_half_width: float | None = None
    fair: bool = True
    """Whether the verdict's two differ in the loss alone, or its sentence names what else they differ in; and whether
    the two of which the report says that all else is equal do."""
    together: bool | None = None
    """Whether the lower ends of all differences from the verdict's comparator hold."""


def fair(report: Report) -> bool:
    """Whether all that the report says to be equal in two configs is, by the parameters of the space."""
    rows, found, best = {row.id: row for row in report.configs}, report.verdict.comparison, report.best
    assert best is not None
    if found:
        unequal = _besides_the_loss(rows[found.config_id], rows[found.comparator_id])
        if any(name not in report.verdict.sentence for name in unequal):
            return False
    _, claimed, rest = best.why.partition("with PPO clip and all else equal (")
    named = [row for row in report.configs if claimed and rest.startswith(f"{row.label})")]
    return bool(named) == bool(claimed) and not any(_besides_the_loss(rows[best.config_id], row) for row in named)


def _besides_the_loss(one: ConfigRow, other: ConfigRow) -> list[str]:
    """The parameters in which two configs differ, but for those of the loss."""
    return [name for name in one.params if one.params[name] != other.params[name] and not name.startswith("loss.")]


def judge(row: Row, report: Report, arms: Arms) -> Seen:
    """Hold a report against the truth."""
    places = {config.id: arm_of(config, arms) for config in report.configs}
    means = {id_: float(arms.means_A[place]) for id_, place in places.items()}
    best_of_space = float(arms.means_A[: arms.points].max())
    assert report.best is not None
    found = report.verdict.comparison
    seen = Seen(
        better=report.verdict.outcome.sign == 1,
        false_better=False,
        covered=None,
        half_width=None,
        oracle_better=None,
        tie_set_holds=None,
        regret=best_of_space - means[report.best.config_id],
        oracle_regret=best_of_space - float(arms.means_A[_oracle_choice(report, arms, places)]) if row.differ else 0.0,
        fair=fair(report),
    )
    if report.verdict.ties is not None:
        members = report.verdict.ties.members
        truly_best = max(members, key=lambda member: (means[member.config_id], member.config_id))  # not by its result
        seen = replace(seen, tie_set_holds=truly_best.in_sound_set)
    if found is None or found.low is None or found.high is None:
        return seen
    true_difference = means[found.config_id] - means[found.comparator_id]
    error, df = oracle_error(report, arms, places)
    critical = lower_critical(found.family, df)
    return replace(
        seen,
        false_better=seen.better and true_difference <= 1e-12,
        covered=found.low <= true_difference <= found.high,
        half_width=(found.high - found.low) / 2,
        oracle_better=found.difference > critical * error,
        oracle_half_width=(critical + student_critical(df)) / 2 * error,
        together=all(
            other.low <= means[other.config_id] - means[other.comparator_id]
            for other in report.comparisons
            if other.comparator_id == found.comparator_id and other.low is not None
        ),
    )


def oracle_error(report: Report, arms: Arms, places: dict[str, int]) -> tuple[float, int]:
    """The standard error of the verdict's difference, and its degrees of freedom, by an oracle.

    It knows the kind of the world: how many times as noisy one arm is as another, and which errors are correlated. How
    large they are it estimates, from the residuals of all confirmed trials. Of luck on problems it knows all variances.
    """
    found = report.verdict.comparison
    assert found is not None
    if isinstance(arms.source, Lucky):
        variance = arms.source.variance(found.num_seeds, found.num_problems or arms.source.problems)
        return math.sqrt(2 * variance), _KNOWN
    pair_AA = arms.covariance([places[found.config_id], places[found.comparator_id]])
    of_pair = float(pair_AA[0, 0] + pair_AA[1, 1] - 2 * pair_AA[0, 1])
    trials = [trial for trial in report.trials if trial.stage is Stage.CONFIRM and trial.objective is not None]
    columns = {id_: number for number, id_ in enumerate(dict.fromkeys(trial.config_id for trial in trials))}
    by_seed: dict[int, list[TrialRow]] = {}
    for trial in trials:
        by_seed.setdefault(trial.seed, []).append(trial)
    blocks, values = list[Floats](), list[Floats]()
    for number, own in enumerate(by_seed.values()):
        design = np.zeros((len(own), len(columns) + len(by_seed)))
        design[range(len(own)), [columns[trial.config_id] for trial in own]] = 1
        design[:, len(columns) + number] = 1
        whiten = np.linalg.inv(np.linalg.cholesky(arms.covariance([places[trial.config_id] for trial in own])))
        blocks.append(whiten @ design)
        values.append(whiten @ np.array([trial.objective for trial in own], dtype=float))
    design, value = np.concatenate(blocks), np.concatenate(values)
    fitted, _, rank, _ = np.linalg.lstsq(design, value)
    df = len(value) - int(rank)
    squares = float(((value - design @ fitted) ** 2).sum()) / df
    return math.sqrt(squares * of_pair / found.num_seeds), df


def _oracle_choice(report: Report, arms: Arms, places: dict[str, int]) -> int:
    """The point of the space with the highest expected mean: best linear prediction in config + seed + error.

    It is given all trials, the errors' true variances and what means are drawn from.
    """
    rows = [
        (places[trial.config_id], trial.stage is Stage.CONFIRM, trial.seed, trial.objective)
        for trial in report.trials
        if trial.objective is not None
    ]
    seeds = {seed: index for index, seed in enumerate(sorted({(stage, seed) for _, stage, seed, _ in rows}))}
    num_arms = len(arms.means_A)
    design = np.zeros((len(rows), num_arms + len(seeds)))
    weights = np.zeros(len(rows))
    for index, (place, stage, seed, _) in enumerate(rows):
        design[index, place] = design[index, num_arms + seeds[stage, seed]] = 1
        weights[index] = 1 / max(arms.sds_A[place] ** 2, 1e-12)
    middle, spread = arms.prior
    values = np.array([value for *_, value in rows], dtype=float)
    normal = design.T @ (weights[:, None] * design)
    normal[:num_arms, :num_arms] += np.eye(num_arms) / spread**2
    right = design.T @ (weights * values)
    right[:num_arms] += middle / spread**2
    return int(np.linalg.solve(normal, right)[: arms.points].argmax())


@dataclass(frozen=True)
class Tally:
    """Shares of runs, and whether each target is met."""

    row: Row
    runs: int
    coverage: float
    false_better: float
    false_better_bound: float
    """The 99 % upper bound (Clopper-Pearson)."""
    better: float
    power: float | None
    """Share of AHEAD relative to the oracle's; None without true differences."""
    regret: float | None
    """Relative to the oracle's."""
    ties: float
    """How often the truly best confirmed config is in the tie set."""
    undecided: float
    """Too few seeds with a result for both."""
    half_width: float
    oracle_half_width: float
    fair: float
    """Share of reports that call nothing equal that is not."""
    together: float
    """How often the lower ends of all differences from one comparator hold."""

    @property
    def missed(self) -> list[str]:
        """The targets that are not met."""
        if isinstance(self.row.world, Rates):
            wrong = {
                "coverage": self.coverage < COVERAGE,
                "false AHEAD": self.false_better > FALSE_AHEAD,
                "all else equal": self.fair < 1,
            }
            return [name for name, misses in wrong.items() if misses]
        if isinstance(self.row.world, Lucky):
            wrong = {"coverage": self.coverage < COVERAGE, "false AHEAD": self.false_better > FALSE_AHEAD}
            return [name for name, misses in wrong.items() if misses and self.row.world.counted]
        seeds = min(SEEDS) if isinstance(self.row.world, Recorded) else self.row.seeds
        tests = {
            "coverage": self.coverage >= COVERAGE,
            "lower ends together": self.together >= TOGETHER,
            "false AHEAD": self.false_better <= FALSE_AHEAD,
            "power": self.power is None or self.power >= POWER[seeds],
            "regret": self.regret is None or self.regret <= REGRET,
        }
        return [name for name, met in tests.items() if not met]


def tally(row: Row, seen: Sequence[Seen]) -> Tally:
    """Sum up the runs of one row."""
    decided = [run for run in seen if run.covered is not None]
    false = sum(run.false_better for run in seen)
    better = sum(run.better for run in decided)
    oracle = sum(run.oracle_better or False for run in decided)
    held = [run.tie_set_holds for run in seen if run.tie_set_holds is not None]
    regret, least = sum(run.regret for run in seen), sum(run.oracle_regret for run in seen)
    return Tally(
        row=row,
        runs=len(seen),
        coverage=_share([bool(run.covered) for run in decided]),
        false_better=false / len(seen),
        false_better_bound=float(beta.ppf(0.99, false + 1, len(seen) - false)) if false < len(seen) else 1.0,
        better=better / len(seen),
        power=better / oracle if row.differ and oracle else None,
        regret=regret / least if row.differ and least > 0 else None,
        ties=_share(held),
        undecided=1 - len(decided) / len(seen),
        half_width=_mean([run.half_width for run in decided]),
        oracle_half_width=_mean([run.oracle_half_width for run in decided]),
        fair=_share([run.fair for run in seen]),
        together=_share([bool(run.together) for run in decided]),
    )


def _share(flags: Sequence[bool]) -> float:
    return sum(flags) / len(flags) if flags else math.nan


def _mean(values: Sequence[float | None]) -> float:
    return float(np.mean([math.nan if value is None else value for value in values]))


def worlds(recorded: Path = RECORDED) -> dict[str, tuple[World, World]]:
    """Each world without and with true differences."""
    arms = json.loads(recorded.read_text())["arms"]  # written by record_sweep.py
    values_AS = np.array([[float(np.mean(run["evaluations"])) for run in arm["runs"]] for arm in arms])
    collapsed_AS = np.array([[run["collapsed"] for run in arm["runs"]] for arm in arms])
    return {
        "Gaussian": (Drawn(0), Drawn(2)),
        "heavy tails": (Drawn(0, heavy=True), Drawn(2, heavy=True)),
        "recorded": (Recorded(values_AS, collapsed_AS, level=True), Recorded(values_AS, collapsed_AS, level=False)),
    }


def target_rows() -> list[Row]:
    """The worlds that the targets are about."""
    apart = [
        Row(name, world, seeds, differ)
        for name, pair in worlds().items()
        for differ, world in zip((False, True), pair, strict=True)
        for seeds in SEEDS
    ]
    alike = [Row("near-duplicates", Drawn(0, alike=0.95), seeds, differ=False, top_k=3) for seeds in SEEDS]
    noisy = [
        Row(f"noisy baseline, variance x {ratio}", Drawn(0, noisy=((POINTS, math.sqrt(ratio)),)), seeds, differ=False)
        for ratio in (2, 4)
        for seeds in SEEDS
    ]
    return [*apart, *alike, *noisy]


def stress_rows() -> list[Row]:
    """Worlds beyond: they show where the method ends."""
    small = [Row("Gaussian, differences half as large", Drawn(1), seeds, differ=True) for seeds in SEEDS]
    dealt = [
        Row("recorded, arms dealt at random", replace(world, dealt=True), seeds, differ)
        for differ, world in zip((False, True), worlds()["recorded"], strict=True)
        if isinstance(world, Recorded)
        for seeds in SEEDS
    ]
    base = [Row("baseline's sd x 3", Drawn(0, noisy=((9, 3.0),)), seeds, differ=False) for seeds in SEEDS]
    return [
        *small,
        *dealt,
        *base,
        Row("baseline's sd / 3", Drawn(0, noisy=((9, 1 / 3),)), 4, differ=False),
        Row("two configs' sd x 3", Drawn(0, noisy=((0, 3.0), (1, 3.0))), 4, differ=False),
        Row("DAPO arm's sd x 6", Drawn(0, noisy=((10, 6.0),)), 4, differ=False),
        Row("DAPO arm's sd x 6", Drawn(2, noisy=((10, 6.0),)), 4, differ=True),
        Row("top_k 5 of 27 configs", Drawn(0, points=27), 4, differ=False, top_k=5),
        Row("top_k 5 of 27 configs", Drawn(2, points=27), 4, differ=True, top_k=5),
    ]


def problem_rows() -> list[Row]:
    """Worlds in which configs are lucky on problems; the last ones as a report sees them that knows no problems."""
    sizes = ((10, 0.1), (20, 0.05), (20, 0.1), (49, 0.1), (100, 0.1), (500, 0.1))
    apart = [
        Row(_lucky_name(problems, luck), Lucky(problems, luck, spread), seeds, differ=spread > 0)
        for spread in (0.0, 0.05)
        for problems, luck in sizes
        for seeds in SEEDS
        if not spread or seeds == 4
    ]
    blind = [
        Row(f"{_lucky_name(problems, luck)}, not counted", Lucky(problems, luck, counted=False), 4, differ=False)
        for problems, luck in sizes
    ]
    families = {
        "100 problems in families of 5": Lucky(100, 0.1, families=(5,) * 20),
        "200 problems in families of 5": Lucky(200, 0.1, families=(5,) * 40),
        "100 problems in families of 10": Lucky(100, 0.1, families=(10,) * 10),
        "200 problems in families of 20": Lucky(200, 0.1, families=(20,) * 10),
        "80 problems, one of them 20 times": Lucky(80, 0.1, families=(20,)),
        "80 problems, 20 of them alike": Lucky(80, 0.1, families=(4,) * 5),
    }
    return [*apart, *(Row(name, world, 4, differ=False) for name, world in families.items()), *blind]


def rate_rows() -> list[Row]:
    """Spaces over learning rate and beta1, in which tuning chooses a rate, too."""
    sizes = [(seeds, top_k) for top_k in (2, 3) for seeds in SEEDS]
    return [
        Row(f"rates, top_k {top_k}", Rates(gain), seeds, differ=gain > 0, top_k=top_k)
        for gain in (0.0, 1.0)
        for seeds, top_k in sizes
    ]


def rule_rows() -> list[Row]:
    """Sweeps whose tune stage a rule of early stopping shortens, beside the same without it."""
    pairs = {"Gaussian": (Drawn(0), Drawn(2)), "recorded": worlds()["recorded"]}
    return [
        Row(f"{name}, {rule or 'no rule'}", world, 4, differ, tune_seeds=6, rule=rule)
        for name, pair in pairs.items()
        for differ, world in zip((False, True), pair, strict=True)
        for rule in (None, "paired", "rungs")
    ]


def _lucky_name(problems: int, luck: float) -> str:
    return f"{problems} problems, luck {luck:g}"


def run_batch(row: Row, seed: int, batch: int, runs: int) -> list[Seen]:
    """A part of a row's runs; the same arguments give the same runs."""
    rng = np.random.default_rng([seed, batch])
    return [judge(row, *simulate(row, rng)) for _ in range(runs)]


def run_rows(rows: Sequence[Row], runs: int, processes: int) -> Iterator[Tally]:
    """Run every row, `processes` batches at a time."""
    sizes = [min(_BATCH, runs - done) for done in range(0, runs, _BATCH)]
    with ProcessPoolExecutor(processes) as pool:
        parts = [
            [pool.submit(run_batch, row, index, batch, size) for batch, size in enumerate(sizes)]
            for index, row in enumerate(rows)
        ]
        for row, futures in zip(rows, parts, strict=True):
            yield tally(row, [seen for future in futures for seen in future.result()])


HEAD: Final = (
    "world",
    "truth",
    "confirm seeds",
    "interval covers",
    "lower ends hold together",
    "false AHEAD (99 % bound)",
    "AHEAD",
    "of the oracle's",
    "half width, of the oracle's",
    "regret, of the oracle's",
    "tie set holds the best",
    "too few pairs",
)


def truth(row: Row) -> str:
    """Whether the configs of a row's world differ, in words."""
    return "differences" if row.differ else "none"


def line(found: Tally) -> str:
    """One line of the Markdown table."""
    row = found.row
    cells = [
        row.name,
        truth(row),
        str(row.seeds),
        f"{found.coverage:.1%}",
        f"{found.together:.1%}",
        f"{found.false_better:.1%} ({found.false_better_bound:.1%})",
        f"{found.better:.0%}",
        "" if found.power is None else f"{found.power:.0%}",
        f"{found.half_width / found.oracle_half_width:.2f}",
        "" if found.regret is None else f"{found.regret:.2f}",
        f"{found.ties:.1%}",
        f"{found.undecided:.0%}",
    ]
    return f"| {' | '.join(cells)} |"


PROBLEM_HEAD: Final = (*HEAD[:7], "half width", "of the oracle's")


def problem_line(found: Tally) -> str:
    """One line of the Markdown table of worlds with problems."""
    cells = line(found).strip("| ").split(" | ")[:7]
    cells += [f"{found.half_width:.3f}", f"{found.half_width / found.oracle_half_width:.2f}"]
    return f"| {' | '.join(cells)} |"


RATE_HEAD: Final = (*HEAD[:7], "equal in all but the loss, or says so")


def rate_line(found: Tally) -> str:
    """One line of the Markdown table of spaces over learning rate and beta1."""
    return f"| {' | '.join([*line(found).strip('| ').split(' | ')[:7], f'{found.fair:.1%}'])} |"


def _table(asked: argparse.Namespace) -> tuple[list[Row], Sequence[str], Callable[[Tally], str]]:
    """The rows of the table that is asked for, its head, and what writes a line of it."""
    if asked.problems:
        return problem_rows(), PROBLEM_HEAD, problem_line
    if asked.rules:
        return rule_rows(), HEAD, line
    if asked.rates:
        return rate_rows(), RATE_HEAD, rate_line
    return stress_rows() if asked.stress else target_rows(), HEAD, line


def main() -> int:
    """Print the table; returns the exit code."""
    parser = argparse.ArgumentParser(description="How often the report is right, in simulated sweeps.")
    parser.add_argument("--runs", type=int, default=2000, help="of each row")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--stress", action="store_true", help="worlds beyond the targets; the exit code is 0")
    parser.add_argument("--only", default="", help="part of the name of the worlds to run")
    parser.add_argument("--problems", action="store_true", help="worlds in which configs are lucky on problems")
    parser.add_argument("--rates", action="store_true", help="spaces over learning rate and beta1")
    parser.add_argument("--rules", action="store_true", help="rules of early stopping")
    asked = parser.parse_args()
    started, missed = time.monotonic(), list[str]()
    rows, head, line_of = _table(asked)
    rows = [row for row in rows if asked.only in row.name]
    print(f"| {' | '.join(head)} |\n| {' | '.join(['---'] * len(head))} |", flush=True)
    for found in run_rows(rows, asked.runs, asked.processes):
        print(line_of(found), flush=True)
        missed += [f"{found.row.name}, {truth(found.row)}, {found.row.seeds} seeds: {name}" for name in found.missed]
    minutes = (time.monotonic() - started) / 60
    print(f"\n{asked.runs:,} sweeps a line, {minutes:.0f} minutes on {asked.processes} processes", file=sys.stderr)
    if asked.stress or not missed:
        return 0
    print("Targets missed:", *missed, sep="\n  ", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
