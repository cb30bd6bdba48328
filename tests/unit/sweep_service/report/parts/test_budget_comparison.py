"""Comparisons at equal cost, on trials whose costs and evaluations are written down."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from scipy import stats

from sweep_service.report.model import BudgetComparison
from sweep_service.report.parts.budget_comparison import budget_comparisons
from sweep_service.report.sweep_facts import Facts
from sweep_service.sweep.plan import first_records, make_trials
from sweep_service.sweep.records import Attempt, Stage, Trial, TrialState
from sweep_service.sweep.series import TrialSeries
from sweep_service.sweep.spec import SweepSpec
from tests.unit.sweep_service.report.report_points import facts_of

SEEDS = (10, 11, 12)


@dataclass
class Cost:
    """What one trial records: evaluations at its steps, tokens a step, seconds to each evaluation, and of its attempts
    when they began to hold resources and for how many seconds."""

    evaluations: Sequence[float] = (0.2, 0.4, 0.6)
    tokens: float | None = 10.0
    seconds: Sequence[float] = (10.0, 60.0, 110.0)
    state: TrialState = TrialState.SUCCEEDED
    attempts: int = 1
    steps: Sequence[int] = (0, 100, 200)
    held: Sequence[tuple[float | None, float]] = ()


def confirmed(costs: Mapping[tuple[float, int], Cost], *, gpus: float = 0, last: int = 1) -> Facts:
    """β1 = 1 against the baseline β1 = 0, by (β1, seed); what is not given is `Cost()`."""
    spec = SweepSpec.model_validate(
        {
            "name": "costs",
            "training": {"loss": {"name": "ce_gppo", "beta2": 0.0}, "steps": 200},
            "space": {"loss.beta1": [1.0]},
            "seeds": {"tune": [0], "confirm": {"top_k": 1, "seeds": list(SEEDS)}},
            "baselines": {"dapo": False, "matched": False},
            "objective": {"last": last},
            "resources": {"gpus": gpus},
        }
    )
    configs = first_records(spec, "swp_test")[0]
    tune = make_trials(spec, "swp_test", configs, Stage.TUNE, 0)
    planned = tune + make_trials(spec, "swp_test", configs, Stage.CONFIRM, len(tune))
    beta1 = {config.id: config.training["loss"]["beta1"] for config in configs}
    trials: list[Trial] = []
    attempts: list[Attempt] = []
    series: dict[str, TrialSeries] = {}
    for trial in planned:
        cost = costs.get((beta1[trial.config_id], trial.seed), Cost())
        ends = {
            "id": f"trl_{trial.number}",
            "state": cost.state,
            "step": 200,
            "started_at": 4000.0,
            "ended_at": 5000.0 + cost.seconds[-1],
            "held_s": sum(seconds for _, seconds in cost.held) or cost.seconds[-1],
            "attempts": cost.attempts,
        }
        trials.append(trial.model_copy(update=ends))
        attempts += [_attempt(f"trl_{trial.number}", *span) for span in cost.held]
        metrics: dict[str, Any] = {"eval/avg_at_k": np.array(cost.evaluations)}
        if cost.tokens is not None:
            metrics["tokens/total"] = cost.tokens * np.arange(1, 201)
        times = 5000.0 + np.array(cost.seconds)
        series[f"trl_{trial.number}"] = TrialSeries(
            f"trl_{trial.number}", np.arange(1, 201), np.array(cost.steps), times, metrics
        )
    return facts_of(spec, configs, trials, series, attempts)


def _attempt(trial_id: str, begin: float | None, held_s: float) -> Attempt:
    """An attempt that began to hold its resources so many seconds after the start."""
    return Attempt(
        trial_id=trial_id,
        number=1,
        epoch=1,
        directory="/data",
        events_offset=0,
        started_at=4000.0,
        held_from=None if begin is None else 5000.0 + begin,
        held_s=held_s,
    )


def row(facts: Facts, unit: str) -> BudgetComparison:
    (found,) = [found for found in budget_comparisons(facts) if found.unit == unit]
    return found


def test_equal_costs_leave_the_plain_difference() -> None:
    facts = confirmed({(1.0, seed): Cost((0.2, 0.4, 0.6 + 0.01 * seed)) for seed in SEEDS})
    rows = budget_comparisons(facts)
    assert [found.unit for found in rows] == ["steps", "tokens", "hours"]
    deltas = np.array([0.10, 0.11, 0.12])
    half = stats.t.ppf(0.975, 2) * deltas.std(ddof=1) / np.sqrt(3)
    for found in rows:
        assert found.difference == pytest.approx(0.11)
        assert (found.low, found.high) == (pytest.approx(0.11 - half), pytest.approx(0.11 + half))
        assert found.num_seeds == 3
    plain = facts.comparisons[0]
    assert rows[0].difference == pytest.approx(plain.difference)
    assert (rows[0].config_id, rows[0].comparator_id) == (plain.config_id, plain.comparator_id)


def test_the_budget_is_the_cheaper_ones_and_the_other_is_read_there() -> None:
    facts = confirmed({(1.0, seed): Cost(tokens=16.0) for seed in SEEDS})
    tokens = row(facts, "tokens")  # at 2000 tokens the dear one is at step 125: 0.4 and a quarter of the way to 0.6
    assert tokens.budget == pytest.approx(2000)
    assert tokens.difference == pytest.approx(0.45 - 0.6)
    assert row(facts, "steps").difference == pytest.approx(0)


def test_the_cheaper_one_may_be_the_config() -> None:
    tokens = row(confirmed({(1.0, seed): Cost(tokens=5.0) for seed in SEEDS}), "tokens")
    assert tokens.budget == pytest.approx(1000)
    assert tokens.difference == pytest.approx(0.6 - 0.4)


def test_the_objective_at_a_budget_is_a_mean_of_its_last_evaluations() -> None:
    tokens = row(confirmed({(1.0, seed): Cost(tokens=20.0) for seed in SEEDS}, last=2), "tokens")
    assert tokens.difference == pytest.approx((0.2 + 0.4) / 2 - (0.4 + 0.6) / 2)


@pytest.mark.parametrize(("gpus", "times"), [(0, 1), (2, 2), (0.5, 0.5)])
def test_hours_run_from_the_first_evaluation_and_count_gpus(gpus: float, times: float) -> None:
    slow = Cost(seconds=(900.0, 1000.0, 1100.0))  # waited for a cache, then took twice as long
    hours = row(confirmed({(1.0, seed): slow for seed in SEEDS}, gpus=gpus), "hours")
    assert hours.budget == pytest.approx(100 / 3600 * times)
    assert hours.difference == pytest.approx(0.4 - 0.6)


def test_without_an_evaluation_of_the_initial_policy_hours_run_from_the_start() -> None:
    slow, fast = Cost(steps=(50, 100, 200), seconds=(100.0, 200.0, 400.0)), Cost(steps=(50, 100, 200))
    costs = {(beta1, seed): slow if beta1 else fast for beta1 in (0.0, 1.0) for seed in SEEDS}
    hours = row(confirmed(costs), "hours")
    assert hours.budget == pytest.approx(110 / 3600)
    assert hours.difference == pytest.approx(0.22 - 0.6)


def test_a_diverged_trial_counts_zero_and_shortens_no_budget() -> None:
    dead = Cost((0.2,) * 3, tokens=0.1, state=TrialState.DIVERGED)
    tokens = row(confirmed({(1.0, 10): dead}), "tokens")
    assert tokens.budget == pytest.approx(2000)
    assert tokens.difference == pytest.approx((0 - 0.6) / 3)
    both = row(confirmed({(beta1, seed): dead for beta1 in (0.0, 1.0) for seed in SEEDS}), "tokens")
    assert (both.difference, both.budget, both.num_seeds) == (0, None, 3)


def test_a_failed_seed_is_left_out_and_two_seeds_have_no_interval() -> None:
    facts = confirmed({(0.0, 11): Cost(state=TrialState.FAILED)})
    rows = {found.unit: (found.num_seeds, found.low, found.high) for found in budget_comparisons(facts)}
    assert rows == dict.fromkeys(("steps", "tokens", "hours"), (2, None, None))


def test_costs_that_are_not_known_give_no_row() -> None:
    facts = confirmed({(1.0, seed): Cost(tokens=None, seconds=(10.0, 5.0, 20.0)) for seed in SEEDS})
    assert [found.unit for found in budget_comparisons(facts)] == ["steps"]


@pytest.mark.parametrize("lost", [(), ((None, 0.0),)])
def test_hours_of_all_attempts_count_and_what_was_waited_between_them_does_not(
    lost: Sequence[tuple[float | None, float]],
) -> None:
    """At 40 s of 100 the first attempt died, 20 s after the only evaluation that it had since the first.

    An attempt that was lost before it held anything changes nothing.
    """
    held = ((0.0, 50.0), *lost, (900.0, 60.0))
    costs = {(1.0, 10): Cost(attempts=len(held), seconds=(10.0, 30.0, 950.0), held=held)}
    hours = row(confirmed(costs), "hours")
    assert hours.num_seeds == 3
    last_s = 50.0 + 50.0 - 10.0  # it had held its resources for 10 s at the first evaluation
    assert hours.budget == pytest.approx((last_s + 100 + 100) / 3 / 3600)
    at_last = np.interp(last_s, [0, 50, 100], [0.2, 0.4, 0.6])
    assert hours.difference == pytest.approx((0.6 - at_last) / 3)


@pytest.mark.parametrize("held", [(), ((0.0, 50.0), (None, 40.0))])
def test_a_trial_of_which_nobody_noted_when_it_held_its_resources_has_no_hours(
    held: Sequence[tuple[float | None, float]],
) -> None:
    facts = confirmed({(1.0, 10): Cost(attempts=2, held=held)})
    assert (row(facts, "hours").num_seeds, row(facts, "tokens").num_seeds) == (2, 3)


def test_a_pair_of_which_one_had_no_evaluation_within_the_budget_is_left_out() -> None:
    late = Cost(steps=(50, 100, 200), seconds=(150.0, 160.0, 170.0))
    assert row(confirmed({(1.0, 10): late}), "hours").num_seeds == 2


def test_no_comparison_no_rows() -> None:
    facts = confirmed({(0.0, seed): Cost(state=TrialState.FAILED) for seed in SEEDS})
    assert budget_comparisons(facts) == []
