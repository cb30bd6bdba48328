"""Collapse rates of configs, and their meaning for a comparison that leaves collapsed runs out.

A run collapses if it ends with less than half of the share of right answers that it had at its best, or diverges. One
that failed by itself counts as well, because nobody knows where it would have ended. With no collapse in a few runs the
results are those of a config that never collapses, so that the difference and the rate are two claims, each with its
own error. BETTER needs a condition unless the largest rate that the runs leave possible costs less than the gain.
"""

from bisect import bisect_left
from collections.abc import Collection, Sequence
from statistics import fmean
from typing import Final, NamedTuple

from scipy import stats

from sweep_service.report.facts.report_tables import ReportTables
from sweep_service.report.formatting import count
from sweep_service.report.model import Outcome, RunCounts, TrialRow
from sweep_service.report.statistics.critical_values import CONFIDENCE
from sweep_service.report.statistics.differences import Difference
from sweep_service.sweep.records import Role, Stage

MOST_RUNS: Final = 1000
"""Largest number of runs that is worth proposing."""


class Weighed(NamedTuple):
    """An outcome, and the share of collapsed runs up to which it holds; None if it holds whatever that share is.

    UNDECIDED with such a share: below it the config would be BETTER, or WORSE, but too many runs have collapsed.
    """

    outcome: Outcome
    tolerated: float | None = None


def rate_bound(bad: int, runs: int) -> float:
    """Return the largest rate that so many bad ones among so many runs leave possible (Clopper-Pearson, one-sided)."""
    return 1.0 if bad >= runs else float(stats.beta.ppf(CONFIDENCE, bad + 1, runs - bad))


def least_rate(bad: int, runs: int) -> float:
    """Return the smallest rate that they leave possible."""
    return float(stats.beta.ppf(1 - CONFIDENCE, bad, runs - bad + 1)) if bad else 0.0


def runs_to_exclude(rate: float, bad: int = 0) -> int | None:
    """Return the number of runs, so many of them bad, that excludes such a rate; None if not even `MOST_RUNS` does."""
    if rate_bound(bad, MOST_RUNS) > rate:
        return None
    return bisect_left(range(MOST_RUNS), -rate, lo=bad + 1, key=lambda runs: -rate_bound(bad, runs))


def confirm_runs(trials: Sequence[TrialRow], config_ids: Collection[str], stage: Stage = Stage.CONFIRM) -> RunCounts:
    """Count the runs of some configs in a stage that have ended: those with a result, and those that failed."""
    own = [trial for trial in trials if trial.config_id in config_ids and trial.stage is stage]
    collapsed = sum(trial.objective is not None and trial.collapsed for trial in own)
    failed = sum(trial.failed_by_itself for trial in own)
    runs = sum(trial.objective is not None for trial in own) + failed
    return RunCounts(runs=runs, collapsed=collapsed, failed=failed, bound=rate_bound(collapsed + failed, runs))


def failed_bounds(
    trials: Sequence[TrialRow], config_id: str, comparator_id: str, with_collapsed: bool
) -> tuple[float, float] | None:
    """Return the smallest and the largest mean difference of a pair over seeds, had failed runs scored from 0 to 1.

    None if no run of the two failed by itself. Runs that are missing for another reason stay missing, and collapsed
    ones are left out unless they are counted.
    """
    runs = [
        trial
        for trial in trials
        if trial.stage is Stage.CONFIRM and (with_collapsed or trial.failed_by_itself or not trial.collapsed)
    ]
    own, other = (
        {
            run.seed: (0.0, 1.0) if run.objective is None else (run.objective, run.objective)
            for run in runs
            if run.config_id == id_ and (run.objective is not None or run.failed_by_itself)
        }
        for id_ in (config_id, comparator_id)
    )
    seeds = own.keys() & other.keys()
    if all(low == high for side in (own, other) for low, high in (side[seed] for seed in seeds)):
        return None
    return fmean(own[seed][0] - other[seed][1] for seed in seeds), fmean(
        own[seed][1] - other[seed][0] for seed in seeds
    )


def weigh(plain: Outcome, result: Difference, own: RunCounts, other: RunCounts, levels: tuple[float, float]) -> Weighed:
    """Return the outcome of a comparison once collapses count, too.

    Args:
        plain: the outcome without collapsed runs.
        result: the difference without them.
        own, other: runs of the config and of its comparator.
        levels: their means without collapsed runs; a run that collapses loses at most as much.
    """
    match plain:
        case Outcome.BETTER:
            assert result.low is not None
            return _unless(plain, result.low, own, levels[0])
        case Outcome.WORSE:
            assert result.high is not None
            return _unless(plain, -result.high, other, levels[1])
        case Outcome.EQUIVALENT if own.bad or other.bad:
            plain = Outcome.UNDECIDED
        case _:
            pass
    costs = least_rate(own.collapsed, own.runs) * levels[0]  # nobody knows what a failed run would have cost
    if result.high is not None and not other.bad and costs > max(result.high, 0.0):
        return Weighed(Outcome.WORSE, None)
    return Weighed(plain)


def _unless(outcome: Outcome, gain: float, runs: RunCounts, level: float) -> Weighed:
    """Weigh a gain, at least so large, against the collapses of those who have it."""
    tolerated = min(1.0, gain / level) if level > 0 else 1.0
    if runs.bad and runs.bad / runs.runs >= tolerated:
        return Weighed(Outcome.UNDECIDED, tolerated)
    return Weighed(outcome, None if runs.bound <= tolerated else tolerated)


def counts_text(runs: RunCounts, config: str) -> str:
    """Write a sentence like `0 of 6 runs of β1=0 collapsed: up to 39 % cannot be excluded.`"""
    kinds = [f"{runs.collapsed} of {count(runs.runs, 'run')} of {config} collapsed"]
    kinds += [f"{runs.failed} failed"] if runs.failed else []
    return f"{' and '.join(kinds)}: up to {percent(runs.bound)} cannot be excluded."


def tuning_text(tables: ReportTables, config_id: str) -> str:
    """Say how often configs of the space collapsed in the tune stage; empty if none did.

    The rates of the verdict leave these runs out: a config that collapsed in tuning is rarely chosen.
    """
    space = [row.id for row in tables.rows.values() if Role.SPACE in row.roles]
    every, own = (confirm_runs(tables.trials, ids, Stage.TUNE) for ids in (space, [config_id]))
    if not every.bad:
        return ""
    return (
        f" In the tune stage {every.bad} of {count(every.runs, 'run')} of the space collapsed or failed, {own.bad} of "
        f"{own.runs} of this config's; the verdict's rate leaves them out, because they chose the config."
    )


def percent(share: float) -> str:
    """Write a share like `39 %`, and one below a percent like `0.4 %`."""
    return f"{100 * share:.0f} %" if share >= 0.01 or not share else f"{100 * share:.1g} %"
