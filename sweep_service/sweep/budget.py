"""The limits of a sweep: which trials and evaluations may begin, and for how long each may go on. Pure.

A trial that has begun has all of `max_trial_hours` reserved until it ends, its retries included. So whatever has begun
can always go on, and a new trial may begin if its own `max_trial_hours` still fit `max_gpu_hours`. An evaluation on
benchmarks has the same limit, with GPUs of its own. The tune stage leaves untouched what the confirm stage may take,
and both leave what the evaluations may take. Hours are those for which a trial holds its GPUs; waiting is free. A sweep
that only fails ends before it has tried all of its trials.
"""

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

from pydantic import Field

from sweep_service.errors import SpecError
from sweep_service.sweep.endings import TrialState, without_log_command
from sweep_service.sweep.evaluations import most_evaluations
from sweep_service.sweep.records import Evaluation, Record, Sweep, Trial, Work
from sweep_service.sweep.spec import SweepSpec

_ROUNDING: Final = 1e-6
"""Share of a trial's hours by which rounding may change a sum of hours."""
_HOUR_S: Final = 3600.0


class WorkTime(NamedTuple):
    """Time that one trial or evaluation has taken since it began."""

    state: TrialState
    held_s: float
    """Seconds for which its attempts have held its GPUs."""
    measures: bool = False
    """True if it is an evaluation."""


class Spent(NamedTuple):
    """Time that a sweep has taken so far."""

    begun: Sequence[WorkTime]
    """Every trial and every evaluation that has begun."""
    probe_gpu_hours: float = 0.0


class GpuHours(Record):
    """GPU-hours of a sweep: a fraction of a GPU counts as that fraction, several count all."""

    used: float = Field(description="Of all attempts so far, and of the probe.")
    reserved: float = Field(description="Time that begun trials may still take.")
    limit: float | None = Field(description="budget.max_gpu_hours")


class StageCounts(NamedTuple):
    """Number of trials that a sweep may have, by stage."""

    tune: int
    confirm: int


def trial_gpu_hours(spec: SweepSpec, *, measures: bool = False) -> float | None:
    """Return the GPU-hours that one trial or evaluation may take; None without a limit."""
    hours = spec.budget.max_trial_hours
    return None if hours is None else hours * _gpus(spec, measures=measures)


def _gpus(spec: SweepSpec, *, measures: bool) -> float:
    return (spec.evaluation_resources if measures else spec.resources).gpus


def left_s(spec: SweepSpec, held_s: float) -> float | None:
    """Return the seconds left to a trial whose attempts took `held_s`; None without a limit."""
    hours = spec.budget.max_trial_hours
    return None if hours is None else hours * _HOUR_S - held_s


def gpu_hours(spec: SweepSpec, spent: Spent) -> GpuHours:
    """Sum up what a sweep has used and what it has reserved."""
    used, reserved = spent.probe_gpu_hours, 0.0
    for work in spent.begun:
        gpus_h = _gpus(spec, measures=work.measures) / _HOUR_S
        used += work.held_s * gpus_h
        reserved += 0.0 if work.state.is_over else max(0.0, left_s(spec, work.held_s) or 0.0) * gpus_h
    return GpuHours(used=used, reserved=reserved, limit=spec.budget.max_gpu_hours)


class ReservedWork(NamedTuple):
    """Number of trials and of evaluations, not begun yet, that must still fit the budget."""

    trials: int = 0
    evaluations: int = 0


def kept_gpu_hours(spec: SweepSpec, reserved: ReservedWork) -> float:
    """Return the GPU-hours that these may take; 0 without a limit."""
    of_trials, of_evaluations = trial_gpu_hours(spec) or 0.0, trial_gpu_hours(spec, measures=True) or 0.0
    return reserved.trials * of_trials + reserved.evaluations * of_evaluations


def room(spec: SweepSpec, spent: Spent, reserved: ReservedWork, *, measures: bool = False) -> int | None:
    """Return how many new trials may begin now; below 0 if not even `reserved` fits the budget, None without a limit.

    A trial stopped at its limit counts as exactly that limit. The seconds that each trial takes to end are left out,
    because over many trials they could cost the last one its place.

    Args:
        reserved: work that must still fit after these.
        measures: true if evaluations are to begin instead of trials.
    """
    limit, cost = spec.budget.max_gpu_hours, trial_gpu_hours(spec, measures=measures)
    if limit is None or not cost:
        return None
    most_s, booked = (spec.budget.max_trial_hours or 0.0) * _HOUR_S, 0.0
    for work in spent.begun:
        taken_s = min(work.held_s, most_s) if work.state.is_over else most_s
        booked += taken_s * _gpus(spec, measures=work.measures) / _HOUR_S
    left = limit - spent.probe_gpu_hours - (booked + kept_gpu_hours(spec, reserved))
    return math.floor(left / cost + _ROUNDING)


def reason_to_give_up(sweep: Sweep, trials: Sequence[Trial]) -> str | None:
    """Return the reason to begin no other trial: so many have failed, and none has a result; None to go on."""
    most = sweep.spec.retries.max_failed_trials
    failed = [trial for trial in trials if trial.state is TrialState.FAILED]
    if most is None or len(failed) < most or any(trial.state.has_result for trial in trials):
        return None
    last = max(failed, key=lambda trial: trial.ended_at or 0.0)
    why = without_log_command(last.message or "it did not say why")
    have = "1 trial has" if len(failed) == 1 else f"{len(failed)} trials have"
    return (
        f"{have} FAILED and none has a result, so no other begins (retries.max_failed_trials is "
        f"{most}). The last one, {last.id}: {why}\nOnce that is mended, sweeps retry {sweep.id} tries all of them; "
        f"sweeps extend {sweep.id} --max-failed-trials none tries those that never began"
    )


def stopped_message(spec: SweepSpec, work: Work) -> str:
    """Say that a trial or evaluation used up its hours."""
    was_at, remedy = f"step {work.step} of {work.total_steps}", "steps"
    if isinstance(work, Evaluation):
        was_at, remedy = f"benchmark {work.step + 1} of {work.total_steps}", "benchmarks.samples"
    return (
        f"stopped after max_trial_hours {spec.budget.max_trial_hours:g}: it was at {was_at}; raise "
        f"budget.max_trial_hours or lower {remedy}"
    )


def not_begun_message(spec: SweepSpec, hours: GpuHours, reserved: ReservedWork, *, measures: bool = False) -> str:
    """Say why the trials, or the evaluations, that wait do not begin."""
    parts = {
        "the confirm stage": kept_gpu_hours(spec, ReservedWork(trials=reserved.trials)),
        "the benchmarks": kept_gpu_hours(spec, ReservedWork(evaluations=reserved.evaluations)),
    }
    texts = [f"{hours.used:.3g} are used", *(f"{h:.3g} are kept for {purpose}" for purpose, h in parts.items() if h)]
    cost, what = trial_gpu_hours(spec, measures=measures) or 0.0, "an evaluation" if measures else "a trial"
    return f"not begun: budget.max_gpu_hours {hours.limit:g}: {', '.join(texts)}, and {what} may take {cost:.3g}"


class BudgetPlan(Record):
    """Consequences of a budget for a sweep that has not begun."""

    worst_gpu_hours: float = Field(description="If every trial took max_trial_hours, and the probe too.")
    max_gpu_hours: float | None
    kept_for_confirm: float = Field(description="GPU-hours that the tune stage leaves untouched.")
    kept_for_benchmarks: float = Field(default=0.0, description="GPU-hours that all trials leave to evaluations.")
    sure_tune_trials: int = Field(description="Tune trials that begin whatever the others take.")


def budget_plan(spec: SweepSpec, counts: StageCounts) -> BudgetPlan | None:
    """Return the consequences of the limits; None where a trial has no limit or no GPU."""
    cost = trial_gpu_hours(spec)
    if not cost:
        return None
    sure, reserved = _sure(spec, counts), kept_for_later(spec, counts)
    return BudgetPlan(
        worst_gpu_hours=(counts.tune + _probes(spec)) * cost + kept_gpu_hours(spec, reserved),
        max_gpu_hours=spec.budget.max_gpu_hours,
        kept_for_confirm=counts.confirm * cost,
        kept_for_benchmarks=kept_gpu_hours(spec, ReservedWork(evaluations=reserved.evaluations)),
        sure_tune_trials=counts.tune if sure is None else max(0, min(sure, counts.tune)),
    )


def budget_warnings(spec: SweepSpec, counts: StageCounts, trial_s: float) -> list[str]:
    """Return a warning for everything that the budget may keep a sweep from doing.

    Args:
        trial_s: estimated seconds of a trial.
    """
    warnings: list[str] = []
    hours, plan = spec.budget.max_trial_hours, budget_plan(spec, counts)
    if hours is not None and trial_s > hours * _HOUR_S:
        estimate = f"{trial_s / _HOUR_S:.2g} hours"
        warnings.append(f"a trial is estimated at {estimate}: budget.max_trial_hours {hours:g} would stop it as failed")
    if plan and plan.max_gpu_hours is not None and plan.sure_tune_trials < counts.tune:
        warnings.append(
            f"budget.max_gpu_hours {plan.max_gpu_hours:g} is sure to suffice for {plan.sure_tune_trials} of "
            f"{counts.tune} tune trials; more begin where trials take less than max_trial_hours, and "
            f"{plan.worst_gpu_hours:.3g} would suffice for all"
        )
    return warnings


def budget_complaints(spec: SweepSpec, counts: StageCounts | None, first: int) -> list[SpecError]:
    """Say why a budget cannot be kept, or would end a sweep before it has compared anything.

    Args:
        counts: number of trials of the sweep; None if other mistakes in the spec leave it unknown.
        first: number of tune trials that must begin for a comparison: the baselines and one config.
    """
    limit, hours, gpus = spec.budget.max_gpu_hours, spec.budget.max_trial_hours, spec.resources.gpus
    if limit is None:
        return []
    if not gpus:
        detail = "trials have no GPUs (resources.gpus 0) and use no GPU-hours; give budget.max_trial_hours alone"
        return [SpecError("/budget/max_gpu_hours", detail)]
    if hours is None:
        return [SpecError("/budget/max_trial_hours", _needed(spec, limit, counts))]
    if counts is None or (_sure(spec, counts) or 0) >= first:
        return []
    return [SpecError("/budget/max_gpu_hours", _too_little(spec, counts, first, hours * gpus))]


def _sure(spec: SweepSpec, counts: StageCounts) -> int | None:
    """Return how many tune trials are sure to begin, even if every trial and the probe take `max_trial_hours`."""
    reserved = kept_for_later(spec, counts)
    return room(spec, Spent(()), ReservedWork(reserved.trials + _probes(spec), reserved.evaluations))


def kept_for_later(spec: SweepSpec, counts: StageCounts) -> ReservedWork:
    """Return the work for which the tune stage leaves room."""
    return ReservedWork(counts.confirm, most_evaluations(spec, *counts))


def _probes(spec: SweepSpec) -> int:
    return spec.probes != "off"


def _needed(spec: SweepSpec, limit: float, counts: StageCounts | None) -> str:
    text = "max_gpu_hours needs it: only what a trial may take at most says whether one may still begin; give the "
    text += "longest that a trial should take"
    if counts is None:
        return text
    gpus = (sum(counts) + _probes(spec)) * spec.resources.gpus
    gpus += most_evaluations(spec, *counts) * spec.evaluation_resources.gpus
    return f"{text} (at {limit / gpus:.3g} or less all {sum(counts)} trials are sure to begin)"


def _too_little(spec: SweepSpec, counts: StageCounts, first: int, cost: float) -> str:
    confirm, remedies = "", "a lower max_trial_hours"
    if counts.confirm:
        confirm = f"the confirm stage may take {counts.confirm * cost:.3g} ({counts.confirm} trials), "
        remedies = f"fewer confirm seeds, {remedies}"
    benchmarks = kept_gpu_hours(spec, ReservedWork(evaluations=most_evaluations(spec, *counts)))
    if benchmarks:
        confirm += f"the benchmarks {benchmarks:.3g}, "
    if _probes(spec):
        confirm += f"the probe {cost:.3g}, "
    one_seed = (counts.tune // len(spec.seeds.tune) + counts.confirm + _probes(spec)) * cost + benchmarks
    grid = f"with every config on one tune seed it is {one_seed:.3g}; " if spec.search.is_grid else ""
    return (
        f"{spec.budget.max_gpu_hours:g} GPU-hours are too few: a trial may take {cost:.3g}, {confirm}"
        f"the baselines and one config {first * cost:.3g}; {grid}take {remedies} or more hours"
    )
