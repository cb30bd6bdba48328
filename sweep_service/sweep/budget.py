"""The budget of a sweep: which trials may begin, and for how long each may go on. Pure.

A trial that has begun has all of `max_trial_hours` reserved until it ends, its retries included. So whatever has begun
can always go on, and a new trial may begin if its own `max_trial_hours` still fit `max_gpu_hours`. The tune stage
leaves untouched what the confirm stage may take. Hours are those for which a trial holds its GPUs; waiting is free.
"""

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from sweep_service.errors import SpecError
from sweep_service.sweep.endings import TrialState
from sweep_service.sweep.records import Trial
from sweep_service.sweep.spec import SweepSpec

_ROUNDING: Final = 1e-6
"""Share of a trial's hours by which rounding may change a sum of hours."""
_HOUR_S: Final = 3600.0


class TrialTime(NamedTuple):
    """Time that one trial has taken since it began."""

    state: TrialState
    held_s: float
    """Seconds for which its attempts have held its GPUs."""


class Spent(NamedTuple):
    """Time that a sweep has taken so far."""

    begun: Sequence[TrialTime]
    """Every trial that has begun."""
    probe_gpu_hours: float = 0.0


class GpuHours(BaseModel):
    """GPU-hours of a sweep: a fraction of a GPU counts as that fraction, several count all."""

    model_config = ConfigDict(frozen=True)

    used: float = Field(description="Of all attempts so far, and of the probe.")
    reserved: float = Field(description="What trials that have begun may still take.")
    limit: float | None = Field(description="budget.max_gpu_hours")


class StageCounts(NamedTuple):
    """Number of trials that a sweep may have, by stage."""

    tune: int
    confirm: int


def trial_gpu_hours(spec: SweepSpec) -> float | None:
    """Return the GPU-hours that one trial may take; None without a limit."""
    hours = spec.budget.max_trial_hours
    return None if hours is None else hours * spec.resources.gpus


def left_s(spec: SweepSpec, held_s: float) -> float | None:
    """Return the seconds that a trial may still take, of which its attempts took `held_s`; None without a limit."""
    hours = spec.budget.max_trial_hours
    return None if hours is None else hours * _HOUR_S - held_s


def gpu_hours(spec: SweepSpec, spent: Spent) -> GpuHours:
    """Sum up what a sweep has used and what it has reserved."""
    used_s, reserved_s = 0.0, 0.0
    for trial in spent.begun:
        used_s += trial.held_s
        reserved_s += 0.0 if trial.state.is_over else max(0.0, left_s(spec, trial.held_s) or 0.0)
    gpus_h = spec.resources.gpus / _HOUR_S
    return GpuHours(
        used=used_s * gpus_h + spent.probe_gpu_hours, reserved=reserved_s * gpus_h, limit=spec.budget.max_gpu_hours
    )


def room(spec: SweepSpec, spent: Spent, kept: int) -> int | None:
    """Return how many new trials may begin now; below 0 if not even `kept` trials fit the budget, None without a limit.

    A trial stopped at its limit counts as exactly that limit. The seconds that each trial takes to end are left out,
    because over many trials they could cost the last one its place.

    Args:
        kept: number of trials, not made yet, that must still fit after these.
    """
    limit, cost = spec.budget.max_gpu_hours, trial_gpu_hours(spec)
    if limit is None or not cost:
        return None
    booked = sum(_booked(spec, trial) for trial in spent.begun)
    return math.floor((limit - spent.probe_gpu_hours - booked) / cost + _ROUNDING) - kept


def _booked(spec: SweepSpec, trial: TrialTime) -> float:
    """Return the GPU-hours that a trial keeps others from using."""
    most_s = (spec.budget.max_trial_hours or 0.0) * _HOUR_S
    taken_s = min(trial.held_s, most_s) if trial.state.is_over else most_s
    return taken_s * spec.resources.gpus / _HOUR_S


def stopped_message(spec: SweepSpec, trial: Trial) -> str:
    """Say that a trial used up its hours."""
    return (
        f"stopped after max_trial_hours {spec.budget.max_trial_hours:g}: it was at step {trial.step} of "
        f"{trial.total_steps}; raise budget.max_trial_hours or lower steps"
    )


def not_begun_message(spec: SweepSpec, hours: GpuHours, kept: int) -> str:
    """Say why the trials that wait do not begin."""
    cost = trial_gpu_hours(spec) or 0.0
    confirm = f", {kept * cost:.3g} are kept for the confirm stage" if kept else ""
    used = f"{hours.used:.3g} are used{confirm}, and a trial may take {cost:.3g}"
    return f"not begun: budget.max_gpu_hours {hours.limit:g}: {used}"


class BudgetPlan(BaseModel):
    """What a budget means for a sweep that has not begun."""

    model_config = ConfigDict(frozen=True)

    worst_gpu_hours: float = Field(description="If every trial took max_trial_hours, and the probe too.")
    max_gpu_hours: float | None
    kept_for_confirm: float = Field(description="GPU-hours that the tune stage leaves untouched.")
    sure_tune_trials: int = Field(description="Tune trials that begin whatever the others take.")


def budget_plan(spec: SweepSpec, counts: StageCounts) -> BudgetPlan | None:
    """Return what the limits mean; None where a trial has no limit or no GPU."""
    cost = trial_gpu_hours(spec)
    if not cost:
        return None
    sure = _sure(spec, counts)
    return BudgetPlan(
        worst_gpu_hours=(sum(counts) + _probes(spec)) * cost,
        max_gpu_hours=spec.budget.max_gpu_hours,
        kept_for_confirm=counts.confirm * cost,
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
        first: how many tune trials must begin for a comparison: the baselines and one config.
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
    return room(spec, Spent(()), counts.confirm + _probes(spec))


def _probes(spec: SweepSpec) -> int:
    return spec.probes != "off"


def _needed(spec: SweepSpec, limit: float, counts: StageCounts | None) -> str:
    text = "max_gpu_hours needs it: only what a trial may take at most says whether one may still begin; give the "
    text += "longest that a trial should take"
    if counts is None:
        return text
    share = limit / ((sum(counts) + _probes(spec)) * spec.resources.gpus)
    return f"{text} (at {share:.3g} or less all {sum(counts)} trials are sure to begin)"


def _too_little(spec: SweepSpec, counts: StageCounts, first: int, cost: float) -> str:
    confirm, remedies = "", "a lower max_trial_hours"
    if counts.confirm:
        confirm = f"the confirm stage may take {counts.confirm * cost:.3g} ({counts.confirm} trials), "
        remedies = f"fewer confirm seeds, {remedies}"
    if _probes(spec):
        confirm += f"the probe {cost:.3g}, "
    one_seed = (counts.tune // len(spec.seeds.tune) + counts.confirm + _probes(spec)) * cost
    grid = f"with every config on one tune seed it is {one_seed:.3g}; " if spec.search.strategy == "grid" else ""
    return (
        f"{spec.budget.max_gpu_hours:g} GPU-hours are too few: a trial may take {cost:.3g}, {confirm}"
        f"the baselines and one config {first * cost:.3g}; {grid}take {remedies} or more hours"
    )
