"""Ruined runs of two configs: their numbers, and what they leave possible for the difference of the averages.

A run that failed by itself counts as ruined, because nobody knows where it would have ended. With no ruined run among a
few, results are those of a config that has none, so sound runs alone cannot tell which config is better on average.

A run is missing if it began and has no result by no fault of its own. Missing runs that are as frequent in both configs
of a pair say nothing; those that one has more than the other may be its worst ones, and are taken for these.
"""

import math
from collections import defaultdict
from collections.abc import Collection, Sequence
from statistics import fmean
from typing import NamedTuple, Self

from sweep_service.report.facts.report_tables import ReportTables
from sweep_service.report.formatting import count
from sweep_service.report.model import Outcome, RunCounts, TrialRow
from sweep_service.report.statistics.critical_values import CONFIDENCE
from sweep_service.report.statistics.differences import Arm
from sweep_service.report.statistics.ruin_rates import Ruins, least_rate, most_excess, rate_bound
from sweep_service.sweep.records import Role, Stage, TrialState

Pair = tuple[str, str]
Bounds = tuple[float, float]


class Judged(NamedTuple):
    """The word on a comparison, with the bounds of the averages' difference."""

    outcome: Outcome
    average_low: float | None = None
    average_high: float | None = None
    tolerated: float | None = None


class RuinsOf:
    """The ruined runs of confirmed configs, held against what a sound run of theirs scores."""

    def __init__(
        self,
        trials: Sequence[TrialRow],
        sound_arms: Sequence[Arm],
        worst: float | None,
        elsewhere: Collection[str] = (),
    ) -> None:
        """Take all trials, the confirmed configs without their ruined runs, and the worst result that there is.

        Where nobody knows the worst, there are no bounds of averages over all runs. Confirm trials named in `elsewhere`
        are of another batch: they are in no rate.
        """
        self._elsewhere = elsewhere
        self._worst, self._runs = worst, defaultdict[str, list[TrialRow]](list)
        for trial in trials:
            self._runs[trial.config_id].append(trial)
        self._values = {arm.config_id: arm.values for arm in sound_arms if arm.values}
        self._sound = {id_: fmean(values.values()) for id_, values in self._values.items()}

    @classmethod
    def in_tables(cls, tables: ReportTables) -> Self:
        """Return those of a sweep."""
        objective = tables.inputs.sweep.spec.objective
        ended = (trial for trial in tables.trials if trial.state is not TrialState.DIVERGED)
        results = (trial.objective for trial in ended if trial.objective is not None)
        known = objective.metric != "eval/reward_mean" or all(objective.diverged < result for result in results)
        return cls(tables.trials, tables.sound_arms, objective.diverged if known else None, tables.elsewhere)

    def level(self, *config_ids: str) -> float:
        """Return the most that a ruined run of these configs can lose: the best mean of sound runs, above the worst."""
        means = [self._sound[id_] for id_ in config_ids if id_ in self._sound] or [*self._sound.values()]
        return max(0.0, max(means, default=0.0) - (self._worst or 0.0))

    def counts(self, config_id: str, error: float) -> RunCounts:
        """Count a config's runs of the confirm stage; the bound of the rate errs with this probability at most."""
        return ended_runs(self._runs[config_id], [config_id], Stage.CONFIRM, error, self._elsewhere)

    def pair_counts(self, pair: Pair, error: float) -> tuple[RunCounts, RunCounts]:
        """Count the runs of two configs; a bound counts those as ruined that one has missing more than the other."""
        own, other = (self.counts(id_, error) for id_ in pair)
        excess = own.missing - other.missing
        return _with_missing(own, max(0, excess)), _with_missing(other, max(0, -excess))

    def sound(self, pair: Pair, bounds: Bounds) -> Bounds:
        """Return bounds of the difference among sound runs that allow for missing ones.

        Each missing run that one config has more than the other counts as the pair's worst result for that config.
        """
        excess, (low, high) = self._more_missing(*pair), bounds
        one, other = (self._values.get(id_, {}) for id_ in pair)
        deltas = [value - other[seed] for seed, value in one.items() if seed in other]
        if not deltas:
            return bounds
        share = abs(excess) / (len(deltas) + abs(excess))
        if excess > 0:
            return low - share * (fmean(deltas) - min(deltas)), high
        return low, high + share * (max(deltas) - fmean(deltas))

    def _more_missing(self, config_id: str, other_id: str) -> int:
        """Return how many more runs of one config are missing than of another; below 0 if fewer are."""
        one, other = (self.counts(id_, 1 - CONFIDENCE).missing for id_ in (config_id, other_id))
        return one - other

    def average(self, pair: Pair, bounds: Bounds, error: float, *, among_all: bool) -> Bounds | None:
        """Return bounds of the difference of two averages, from those of the difference among sound runs.

        Args:
            pair: ids of the two configs.
            bounds: of their difference among sound runs.
            error: probability with which each bound of the ruins' part errs at most.
            among_all: whether `bounds` count ruined runs, for want of sound ones. Then the difference of the rates of
                ruin has to say the same by itself: a spread among ruins says little of how often they come.
        """
        if self._worst is None:
            return None
        level, (low, high) = self.level(*pair), bounds
        excess = self._more_missing(*pair)
        one, other = self._ruins(pair[0], level, max(0, excess)), self._ruins(pair[1], level, max(0, -excess))
        below, above = -level * most_excess(one, other, error), level * most_excess(other, one, error)
        return (min(low, below), max(high, above)) if among_all else (low + below, high + above)

    def _ruins(self, config_id: str, level: float, missing: int = 0) -> Ruins:
        runs = self.counts(config_id, 1 - CONFIDENCE)
        here = [trial for trial in self._runs[config_id] if _is_counted(trial, Stage.CONFIRM, self._elsewhere)]
        values = [trial.objective for trial in here if trial.ruined]
        sound = self._sound.get(config_id, (self._worst or 0.0) + level)  # what a ruined run lost is counted from here
        lost = [min(1.0, (sound - value) / level) for value in values if value is not None and level > 0]
        return Ruins(runs.runs + missing, runs.bad + missing, sum(max(0.0, share) for share in lost))


def _with_missing(runs: RunCounts, missing: int) -> RunCounts:
    bound = rate_bound(runs.bad + missing, runs.runs + missing, runs.error)
    return runs.model_copy(update={"bound": bound}) if missing else runs


def ended_runs(
    trials: Sequence[TrialRow],
    config_ids: Collection[str],
    stage: Stage,
    error: float = 1 - CONFIDENCE,
    elsewhere: Collection[str] = (),
) -> RunCounts:
    """Count the runs of some configs in a stage that have ended: with a result, by their own failure, or missing.

    Those of another batch, by their trials' ids in `elsewhere`, count as little as those of another stage do.
    """
    own = [trial for trial in trials if trial.config_id in config_ids]
    here = [trial for trial in own if _is_counted(trial, stage, elsewhere)]
    ruined, failed = (sum(trial.ruined for trial in here), sum(trial.failed_by_itself for trial in here))
    runs = sum(trial.objective is not None for trial in here) + failed
    beside = [trial for trial in own if not _is_counted(trial, stage, elsewhere)]
    before = sum(trial.ruined or trial.failed_by_itself for trial in beside)
    return RunCounts(
        runs=runs,
        ruined=ruined,
        failed=failed,
        missing=sum(trial.missing for trial in here),
        ruined_before=before,
        error=error,
        bound=rate_bound(ruined + failed, runs, error),
    )


def _is_counted(trial: TrialRow, stage: Stage, elsewhere: Collection[str]) -> bool:
    return trial.stage is stage and trial.id not in elsewhere


def word(
    sound: Bounds | None, average: Bounds | None, relevant: float, level: float, *, clean: bool, counted: bool
) -> Judged:
    """Return the word on a comparison: the averages' if these decide, else that on sound runs if no run was ruined.

    Where problems do not count, it is what sound runs say, on these problems alone, unless a run was ruined and the
    averages do not say the same.

    Args:
        sound: bounds of the difference among sound runs; None if there are too few of them.
        average: bounds of the difference of the averages; None if nobody knows how bad a ruined run is.
        relevant: the smallest difference that matters.
        level: the most that a ruined run loses.
        clean: whether no run of either config was ruined, in any stage.
        counted: whether the bounds count other problems.
    """
    average_low, average_high = average or (None, None)
    decided, plain = (_plain(bounds, relevant) if bounds else None for bounds in (average, sound))
    if not counted and plain and (clean or plain is decided):
        return Judged(_ON_THESE[plain], average_low, average_high)
    if counted and decided is not None:
        return Judged(decided, average_low, average_high)
    if sound is None:
        return Judged(Outcome.UNDECIDED, average_low, average_high)
    low, high = sound
    spare = {Outcome.BETTER: low, Outcome.WORSE: -high, Outcome.EQUIVALENT: min(relevant + low, relevant - high)}
    leads = plain is not None and (clean or plain is not Outcome.EQUIVALENT)
    tolerated = min(1.0, spare[plain] / level) if plain and leads and average and level > 0 else None
    outcome = _SOUND[plain] if clean and plain and counted else Outcome.UNDECIDED
    return Judged(outcome, average_low, average_high, tolerated)


def _plain(bounds: Bounds, relevant: float) -> Outcome | None:
    low, high = bounds
    if low > 0 or high < 0:
        return Outcome.BETTER if low > 0 else Outcome.WORSE
    return Outcome.EQUIVALENT if -relevant < low and high < relevant else None


_SOUND = {Outcome.BETTER: Outcome.AHEAD, Outcome.WORSE: Outcome.BEHIND, Outcome.EQUIVALENT: Outcome.ALIKE}
_ON_THESE = {
    Outcome.BETTER: Outcome.AHEAD_HERE,
    Outcome.WORSE: Outcome.BEHIND_HERE,
    Outcome.EQUIVALENT: Outcome.ALIKE_HERE,
}


def counts_text(runs: RunCounts, config: str, *, at_least: bool = False) -> str:
    """Write a sentence like `2 of 6 runs of β1=0 were ruined (1 failed): the true share may be up to 73 %.`

    With `at_least` it gives the other end of what the true rate may be.
    """
    failed = f" ({runs.failed} failed)" if runs.failed else ""
    before = f", and {runs.ruined_before} of its other runs" if runs.ruined_before else ""
    least = least_rate(runs.bad, runs.runs, runs.error)
    share = f"is at least {percent(least)}" if at_least and runs.bad else f"may be up to {percent(runs.bound)}"
    were = "was" if runs.bad == 1 else "were"
    return f"{runs.bad} of {count(runs.runs, 'run')} of {config} {were} ruined{failed}{before}: the true share {share}."


def tuning_text(tables: ReportTables, config_id: str) -> str:
    """Say how often configs of the space were ruined in the tune stage; empty if none was."""
    space = [row.id for row in tables.rows.values() if Role.SPACE in row.roles]
    every, own = (ended_runs(tables.trials, ids, Stage.TUNE) for ids in (space, [config_id]))
    if not every.bad:
        return ""
    return (
        f" In the tune stage {every.bad} of {count(every.runs, 'run')} were ruined, {own.bad} of {own.runs} of this "
        "config; the rates above leave these out."
    )


def percent(share: float) -> str:
    """Write a share like `39 %`, and one below a percent like `0.4 %`."""
    return f"{100 * share:.0f} %" if share >= 0.01 or not share else f"{100 * share:.1g} %"


def at_most(share: float) -> str:
    """Write a share like `at most 3.9 %`, never more than it is."""
    return f"at most {math.floor(1000 * share) / 10:g} %" if share >= 0.001 else "hardly any"
