"""Comparisons as if both sides had stopped at the same cost, for betas change lengths and so the cost of an update.

For each confirm seed the budget is what the cheaper one of the pair had spent at its last evaluation. The objective of
the other one, the mean of its last evaluations, is interpolated linearly at that budget: taking the last evaluation
before it would lose a whole evaluation to a cost 1 % higher. Hours run from the evaluation before the first update, if
there is one, because start-up costs all trials the same, except the one that filled a cache.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from sweep_service.report.facts.report_inputs import ReportInputs
from sweep_service.report.model import BudgetComparison, Comparison, Unit
from sweep_service.report.statistics.differences import mean_interval
from sweep_service.report.sweep_facts import Facts
from sweep_service.sweep.records import Stage, Trial, TrialState

_UNITS: Final[tuple[Unit, ...]] = ("tokens", "hours")
_SECONDS: Final = 3600
_CLOCK_S: Final = 0.001


@dataclass(frozen=True)
class Run:
    """One confirm trial, with its cost and objective at each evaluation."""

    diverged: bool
    objective: float
    objectives: npt.NDArray[np.float64]
    """Objective that the trial would have had if it had ended at each evaluation."""
    spent: Mapping[Unit, npt.NDArray[np.float64]]
    """Cost spent at each evaluation, by unit; a unit that was not recorded is left out."""

    def at(self, unit: Unit, budget: float) -> float | None:
        """Return the objective at a cost; None before the first evaluation."""
        if self.diverged:
            return 0.0
        spent = self.spent[unit]
        return None if budget < spent[0] else float(np.interp(budget, spent, self.objectives))


def budget_comparisons(facts: Facts) -> list[BudgetComparison]:
    """Return every comparison at equal steps, and beside it at equal tokens and hours where these were recorded."""
    trials = {trial.id: trial for trial in facts.inputs.trials}
    runs: dict[str, dict[int, Run]] = {id_: {} for comparison in facts.comparisons for id_ in comparison.pair}
    for row in facts.trials:
        if row.stage is Stage.CONFIRM and row.config_id in runs and row.objective is not None:
            runs[row.config_id][row.seed] = _run(trials[row.id], row.objective, facts.inputs)
    rows: list[BudgetComparison] = []
    for comparison in facts.comparisons:
        own, other = (runs[id_] for id_ in comparison.pair)
        both = [(own[seed], other[seed]) for seed in sorted(own.keys() & other.keys())]
        deltas: dict[Unit, list[tuple[float, float | None]]] = {
            "steps": [(a.objective - b.objective, None) for a, b in both]
        }
        for unit in _UNITS:
            at_budget = (_at_equal_cost(a, b, unit) for a, b in both)
            deltas[unit] = [item for item in at_budget if item is not None]
        rows += [_row(comparison, unit, by_seed) for unit, by_seed in deltas.items() if by_seed]
    return rows


def _row(comparison: Comparison, unit: Unit, deltas: Sequence[tuple[float, float | None]]) -> BudgetComparison:
    """Sum up the differences over seeds, each of which comes with its budget."""
    budgets = [budget for _, budget in deltas if budget is not None]
    result = mean_interval([delta for delta, _ in deltas])
    return BudgetComparison(
        config_id=comparison.config_id,
        comparator_id=comparison.comparator_id,
        unit=unit,
        budget=float(np.mean(budgets)) if budgets else None,
        num_seeds=result.n,
        difference=result.mean,
        low=result.low,
        high=result.high,
    )


def _at_equal_cost(own: Run, other: Run, unit: Unit) -> tuple[float, float | None] | None:
    """Return the difference and its budget; None where a cost is unknown or one side had no evaluation yet.

    A diverged trial counts 0 whatever it spent, and does not shorten the other's budget.
    """
    if not all(run.diverged or unit in run.spent for run in (own, other)):
        return None
    ends = [float(run.spent[unit][-1]) for run in (own, other) if not run.diverged]
    if not ends:
        return 0.0, None
    one, two = own.at(unit, min(ends)), other.at(unit, min(ends))
    return None if one is None or two is None else (one - two, min(ends))


def _run(trial: Trial, objective: float, inputs: ReportInputs) -> Run:
    """Read a trial's costs at its evaluations."""
    spec = inputs.sweep.spec
    series = inputs.get(trial.id, inputs.measures[trial.stage])
    if trial.state is TrialState.DIVERGED or series is None:
        return Run(trial.state is TrialState.DIVERGED, objective, np.empty(0), {})
    present = ~np.isnan(series.values)
    steps, spent = series.steps[present], dict[Unit, npt.NDArray[np.float64]]()
    total = inputs.present(trial.id, "tokens/total")
    if total.steps.size:
        spent["tokens"] = np.interp(steps, np.append(0, total.steps), np.append(0.0, total.values))
    seconds = _held_s(trial, inputs.series[trial.id].eval_times[present], inputs)
    if seconds is not None:
        start = seconds[0] if steps[0] == 0 else 0.0
        spent["hours"] = (seconds - start) / _SECONDS * (spec.resources.gpus or 1)
    return Run(False, objective, _running(series.values[present], spec.objective.last), spent)


def _held_s(trial: Trial, times: npt.NDArray[np.float64], inputs: ReportInputs) -> npt.NDArray[np.float64] | None:
    """Return for how many seconds a trial had held its resources at these times, in all its attempts; None if unknown.

    What it waited between two attempts is no cost; what it trained twice, because a crash lost it, is one.
    """
    spans = [
        (one.held_from, one.held_s) for one in inputs.attempts if one.trial_id == trial.id and one.held_from is not None
    ]
    if trial.attempts <= 1 and trial.ended_at is not None:
        spans = [(trial.ended_at - trial.held_s, trial.held_s)]
    noted = math.isclose(sum(seconds for _, seconds in spans), trial.held_s, abs_tol=_CLOCK_S)
    if not spans or not noted or (times < min(spans)[0]).any() or (np.diff(times) < 0).any():
        return None
    return np.sum([np.clip(times - begin, 0.0, seconds) for begin, seconds in spans], axis=0)


def _running(values: npt.NDArray[np.float64], last: int) -> npt.NDArray[np.float64]:
    """Return, for each value, the mean of up to `last` values that end with it."""
    sums = np.append(0.0, np.cumsum(values))
    ends = np.arange(1, len(values) + 1)
    starts = np.maximum(ends - last, 0)
    return (sums[ends] - sums[starts]) / (ends - starts)
