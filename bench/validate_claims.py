"""How often the claims about beta1 and entropy are right: whole sweeps with known truths through `build()`.

    python bench/validate_claims.py [--runs 2000] [--processes 4] [--only NAME]    lines of docs/statistics.md's table

The exit code is 1 if a target is missed.
"""

import argparse
import math
import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from scipy.stats import beta as beta_distribution

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.claim_worlds import (
    BETA1,
    ROLLOUTS,
    SD,
    STEPS,
    UPDATES,
    ClaimWorld,
    worlds,
)
from sweep_service.report.build import build
from sweep_service.report.facts.report_inputs import ReportInputs
from sweep_service.report.model import Claim, Report
from sweep_service.runner.stages import next_records
from sweep_service.sweep.records import (
    Config,
    Curve,
    DesiredState,
    Stage,
    Sweep,
    SweepState,
    Trial,
    TrialState,
)
from sweep_service.sweep.series import TrialSeries

COVERAGE: Final = 0.93
FALSE_CLAIMS: Final = 0.065
"""Upper end of the 95 % interval of the rate of each false outcome."""
OUTCOMES: Final = "HOLDS", "FAILS", "DEPENDS"
CODE: Final = "BETA1_ENTROPY_FALLS_FASTER"
_BATCH: Final = 250


def simulate(world: ClaimWorld, rng: np.random.Generator) -> Report:
    """Run one sweep as the runner does, and build its report."""
    configs, planned = world.first
    sweep = Sweep(
        id="swp_simulated",
        name="simulated",
        state=SweepState.FINALIZING,
        desired_state=DesiredState.RUN,
        created_at=0.0,
        spec=world.spec,
        spec_digest="",
    )
    noise = {config.id: _noise(world, config, rng) for config in configs}
    trials, series = _train(world, configs, planned, noise, rng)
    by_id = {config.id: config for config in configs}
    more = next_records(
        sweep, configs, trials, [_curve(trial, series[trial.id]) for trial in trials if trial.id in series]
    )
    if more is not None:
        by_id |= {config.id: config for config in more[0]}
        confirming, confirmed = _train(world, [*by_id.values()], more[1], noise, rng)
        trials, series = trials + confirming, series | confirmed
    return build(ReportInputs(sweep=sweep, configs=tuple(by_id.values()), trials=tuple(trials), series=series))


def _betas(config: Config) -> tuple[float, float]:
    loss = config.training["loss"]
    return float(loss.get("beta1", 0.0)), float(loss.get("beta2", 0.0))


def _noise(world: ClaimWorld, config: Config, rng: np.random.Generator) -> float:
    if not world.noisy:
        return SD
    return SD * (4 if _betas(config)[0] == BETA1[-1] else 3 if rng.random() < 1 / 3 else 1)


def _train(
    world: ClaimWorld,
    configs: Sequence[Config],
    planned: Sequence[Trial],
    noise: dict[str, float],
    rng: np.random.Generator,
) -> tuple[list[Trial], dict[str, TrialSeries]]:
    betas = {config.id: _betas(config) for config in configs}
    added = {trial.seed: of_seed(world, rng) for trial in planned}
    trials: list[Trial] = []
    series: dict[str, TrialSeries] = {}
    for trial in planned:
        beta1, beta2 = betas[trial.config_id]
        own, other = rng.normal(size=2)
        seed_effect, seed_slope = added[trial.seed]
        slope = world.slope(beta1, beta2) + seed_effect + seed_slope * beta1 + noise.get(trial.config_id, SD) * own
        shared = world.shared * own + math.sqrt(1 - world.shared**2) * other
        failed = rng.random() < world.failed
        state = TrialState.FAILED if failed else TrialState.SUCCEEDED
        trials.append(trial.model_copy(update={"state": state, "step": STEPS}))
        if not failed:
            series[trial.id] = _series(trial, slope, 0.5 + 0.05 * (world.accuracy * beta1 + shared))
    return trials, series


def of_seed(world: ClaimWorld, rng: np.random.Generator) -> tuple[float, float]:
    """Draw what a seed adds to the slope of all its trials, and to the effect of beta1."""
    effect, slope = rng.normal(size=2)
    return world.seed_effect * effect, world.seed_slopes * (rng.exponential() - 1 if world.skewed else slope)


def _series(trial: Trial, slope: float, accuracy: float) -> TrialSeries:
    steps = np.arange(1, ROLLOUTS + 1) * UPDATES
    return TrialSeries(
        trial_id=trial.id,
        steps=steps,
        eval_steps=np.array([STEPS]),
        eval_times=np.array([0.0]),
        metrics={"entropy": np.exp(slope * steps / STEPS), "eval/avg_at_k": np.array([accuracy])},
    )


def _curve(trial: Trial, series: TrialSeries) -> Curve:
    return Curve(
        trial_id=trial.id,
        config_id=trial.config_id,
        seed=trial.seed,
        stage=trial.stage,
        key="eval/avg_at_k",
        steps=[STEPS],
        times=[0.0],
        values=series.metrics["eval/avg_at_k"].tolist(),
    )


@dataclass(frozen=True)
class ClaimSeen:
    """What one simulated sweep claimed of beta1."""

    outcome: str
    false: bool
    """HOLDS or FAILS where beta1 has not that effect at some beta2; DEPENDS where no two signs are opposite."""
    silent: bool
    """No interval, and not shown to depend on beta2."""
    covered: bool | None
    """Whether the average's interval contains the truth of the configs it is from; None without an interval."""


def judge(world: ClaimWorld, report: Report) -> ClaimSeen:
    """Hold the claim about beta1 against the truth."""
    claim: Claim | None = next((claim for claim in report.claims if claim.code == CODE), None)
    if claim is None:
        return ClaimSeen("", false=False, silent=True, covered=None)
    outcome = claim.outcome.value
    false = is_false(outcome, effects(world))
    if claim.low is None or claim.high is None:
        return ClaimSeen(outcome, false, silent=outcome != "DEPENDS", covered=None)
    covered = claim.low <= line(world, _used(world, report)) <= claim.high
    return ClaimSeen(outcome, false, silent=False, covered=covered)


def effects(world: ClaimWorld) -> list[float]:
    """Return the true effect of beta1 at every value of beta2."""
    return [line(world, [(beta1, beta2) for beta1 in BETA1]) for beta2 in world.beta2]


def is_false(outcome: str, true: Sequence[float]) -> bool:
    """Return True if an outcome is false of the effects at all values of beta2."""
    if outcome not in OUTCOMES:
        return False
    falls, rises = (all(sign * effect > 1e-9 for effect in true) for sign in (-1, 1))
    opposed = min(true) < -1e-9 and max(true) > 1e-9
    return not {"HOLDS": falls, "FAILS": rises, "DEPENDS": opposed}[outcome]


def _used(world: ClaimWorld, report: Report) -> list[tuple[float, float]]:
    """The betas of the configs that a claim is about: all that were tuned, or those that were confirmed."""
    tuned = world.tune >= 3
    used = {trial.config_id for trial in report.trials if tuned or trial.stage is Stage.CONFIRM}
    points = [(row.params.get("loss.beta1"), row.params.get("loss.beta2")) for row in report.configs if row.id in used]
    return [(float(beta1), float(beta2)) for beta1, beta2 in points if beta1 is not None and beta2 is not None]


def line(world: ClaimWorld, points: Sequence[tuple[float, float]]) -> float:
    """Return the true change of the slope per unit of beta1, with beta2 the same."""
    product = spread = 0.0
    for level in {beta2 for _, beta2 in points}:
        beta1 = np.array(sorted({one for one, other in points if other == level}))
        centred = beta1 - beta1.mean()
        product += float(centred @ np.array([world.slope(one, level) for one in beta1]))
        spread += float(centred @ centred)
    return product / spread if spread else 0.0


@dataclass(frozen=True)
class ClaimTally:
    """Shares of one world's runs."""

    world: ClaimWorld
    coverage: float
    """Of the runs with an interval; NaN without any."""
    false: dict[str, float]
    """By outcome."""
    false_bound: float
    """The upper end of the 95 % interval of the largest of them (Clopper-Pearson)."""
    outcomes: dict[str, float]
    silent: float

    @property
    def missed(self) -> list[str]:
        """The targets that are not met."""
        true = effects(self.world)
        short = not min(true) < 0 < max(true) and self.coverage < COVERAGE
        return ["coverage"] * short + ["false claims"] * (self.false_bound > FALSE_CLAIMS)


def tally(world: ClaimWorld, seen: Sequence[ClaimSeen]) -> ClaimTally:
    """Sum up the runs of one world."""
    covered = [run.covered for run in seen if run.covered is not None]
    false = {name: sum(run.false and run.outcome == name for run in seen) for name in OUTCOMES}
    most, n = max(false.values()), len(seen)
    return ClaimTally(
        world=world,
        coverage=sum(covered) / len(covered) if covered else math.nan,
        false={name: number / n for name, number in false.items()},
        false_bound=float(beta_distribution.ppf(0.975, most + 1, n - most)) if most < n else 1.0,
        outcomes={name: sum(run.outcome == name for run in seen) / n for name in OUTCOMES},
        silent=sum(run.silent for run in seen) / n,
    )


HEAD: Final = (
    "world",
    "seeds",
    "interval covers",
    "false HOLDS, FAILS, DEPENDS (upper end of the largest)",
    "HOLDS",
    "FAILS",
    "DEPENDS",
    "no interval",
)


def table_line(found: ClaimTally) -> str:
    """One line of the Markdown table."""
    world = found.world
    cells = [
        world.name,
        f"{world.tune} + {world.confirm}" if world.confirm else str(world.tune),
        "" if math.isnan(found.coverage) else f"{found.coverage:.1%}",
        f"{', '.join(f'{rate:.1%}' for rate in found.false.values())} ({found.false_bound:.1%})",
        *(f"{share:.0%}" for share in found.outcomes.values()),
        f"{found.silent:.0%}",
    ]
    return f"| {' | '.join(cells)} |"


def run_batch(number: int, batch: int, runs: int) -> list[ClaimSeen]:
    """A part of a world's runs; the same arguments give the same runs."""
    world, rng = worlds()[number], np.random.default_rng([number, batch])
    return [judge(world, simulate(world, rng)) for _ in range(runs)]


def main() -> int:
    """Print the table; returns the exit code."""
    parser = argparse.ArgumentParser(description="How often the claims about beta1 are right, in simulated sweeps.")
    parser.add_argument("--runs", type=int, default=2000, help="of each world")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", default="", help="lines whose world has this in its name")
    asked = parser.parse_args()
    started, missed = time.monotonic(), list[str]()
    chosen = [number for number, world in enumerate(worlds()) if asked.only in world.name]
    sizes = [min(_BATCH, asked.runs - done) for done in range(0, asked.runs, _BATCH)]
    print(f"| {' | '.join(HEAD)} |\n| {' | '.join(['---'] * len(HEAD))} |", flush=True)
    with ProcessPoolExecutor(asked.processes) as pool:
        parts = [[pool.submit(run_batch, number, batch, size) for batch, size in enumerate(sizes)] for number in chosen]
        for world, futures in zip([worlds()[number] for number in chosen], parts, strict=True):
            found = tally(world, [seen for future in futures for seen in future.result()])
            print(table_line(found), flush=True)
            missed += [f"{world.name}, {world.tune} + {world.confirm} seeds: {name}" for name in found.missed]
    minutes = (time.monotonic() - started) / 60
    print(f"\n{asked.runs:,} sweeps a line, {minutes:.0f} minutes on {asked.processes} processes", file=sys.stderr)
    if not missed:
        return 0
    print("Targets missed:", *missed, sep="\n  ", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
