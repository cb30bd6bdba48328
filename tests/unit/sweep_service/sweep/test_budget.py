"""What a budget allows, what it refuses, and what it says: sums on paper."""

from typing import Any

import pytest

from sweep_service.intake.spec_check import parse_spec
from sweep_service.sweep.budget import GpuHours, ReservedWork, Spent, WorkTime, gpu_hours, left_s, room
from sweep_service.sweep.plan import make_plan, stage_counts
from sweep_service.sweep.records import TrialState
from sweep_service.sweep.spec import SweepSpec
from tests.refusals import refusals

HOUR = 3600.0
RAW: dict[str, Any] = {
    "name": "s",
    "space": {"loss.beta1": [0, 0.5, 1], "loss.beta2": [0, 1]},
    "seeds": {"tune": [0, 1], "confirm": {"top_k": 2, "seeds": [5, 6, 7]}},
    "training": {"device_batch": 32},
    "resources": {"gpus": 2},
}
"""7 configs: the 6 points, one of them the baseline, and DAPO; at most 4 confirmed: 2 chosen and 2 baselines."""


def limited(gpus: float = 2, **budget: float) -> SweepSpec:
    return SweepSpec.model_validate(RAW | {"resources": {"gpus": gpus}, "budget": budget})


def refused(**changes: Any) -> dict[str, str]:
    return refusals(RAW | changes)


def begun(*trials: tuple[TrialState, float]) -> Spent:
    return Spent([WorkTime(state, hours * HOUR) for state, hours in trials])


@pytest.mark.parametrize(("gpus", "used", "reserved"), [(2, 3.0, 5.0), (0.5, 0.75, 1.25), (0, 0, 0)])
def test_hours_are_counted_for_every_gpu_and_reserved_until_a_trial_ends(
    gpus: float, used: float, reserved: float
) -> None:
    spent = begun((TrialState.SUCCEEDED, 1.0), (TrialState.RUNNING, 0.5), (TrialState.PENDING, 0.0))
    found = gpu_hours(limited(gpus, max_trial_hours=1.5), spent)
    assert found == GpuHours(used=used, reserved=reserved, limit=None)


def test_a_trial_without_a_limit_reserves_nothing_that_could_be_said() -> None:
    found = gpu_hours(limited(), begun((TrialState.RUNNING, 0.5)))
    assert found == GpuHours(used=1.0, reserved=0.0, limit=None)
    assert left_s(limited(), 7.0) is None


def test_what_a_trial_may_still_take_is_its_limit_less_all_its_attempts() -> None:
    assert left_s(limited(max_trial_hours=0.5), 300.0) == 1500.0


def test_room_is_what_fits_beside_what_has_begun_and_what_is_kept() -> None:
    spec = limited(max_gpu_hours=20, max_trial_hours=1)
    assert room(spec, Spent(()), ReservedWork(0)) == 10
    assert room(spec, Spent(()), ReservedWork(7)) == 3
    assert room(spec, begun((TrialState.RUNNING, 0.1), (TrialState.PENDING, 0.9)), ReservedWork(7)) == 1
    assert room(spec, begun((TrialState.FAILED, 0.1), (TrialState.SUCCEEDED, 0.4)), ReservedWork(0)) == 9
    assert room(spec, begun((TrialState.FAILED, 0.1), (TrialState.SUCCEEDED, 0.9)), ReservedWork(0)) == 9
    assert room(spec, Spent((), probe_gpu_hours=0.5), ReservedWork(0)) == 9
    assert room(limited(max_trial_hours=1), Spent(()), ReservedWork(99)) is None


def test_evaluations_fit_and_are_kept_with_gpus_of_their_own() -> None:
    benchmarks = {"names": ["arithmetic"], "resources": {"gpus": 1}}
    budget = {"max_gpu_hours": 20, "max_trial_hours": 1}
    spec = SweepSpec.model_validate(RAW | {"benchmarks": benchmarks, "budget": budget})
    spent = Spent([WorkTime(TrialState.SUCCEEDED, HOUR), WorkTime(TrialState.RUNNING, 0.0, measures=True)])
    kept = ReservedWork(
        trials=3, evaluations=5
    )  # 6 and 5 GPU-hours, beside the 2 of the trial and the 1 of the evaluation
    assert (room(spec, spent, kept), room(spec, spent, kept, measures=True)) == (3, 6)


def test_seconds_in_which_trials_are_stopped_cost_no_other_trial_its_place() -> None:
    spec = limited(max_gpu_hours=20, max_trial_hours=1)
    stopped = begun(*[(TrialState.FAILED, 1.001)] * 9)
    assert room(spec, stopped, ReservedWork(0)) == 1
    assert gpu_hours(spec, stopped).used == pytest.approx(18.018)


def test_tenths_of_hours_add_up() -> None:
    spec = limited(0.1, max_gpu_hours=0.3, max_trial_hours=0.1)
    assert room(spec, begun(*[(TrialState.SUCCEEDED, 0.1)] * 27), ReservedWork(0)) == 3


def test_gpu_hours_need_a_limit_for_one_trial_that_lets_all_begin() -> None:
    found = refused(budget={"max_gpu_hours": 54})
    assert found == {
        "/budget/max_trial_hours": "max_gpu_hours needs it: only what a trial may take at most says whether one may "
        "still begin; give the longest that a trial should take (at 1 or less all 26 trials are sure to begin)"
    }


def test_gpu_hours_without_gpus_are_refused() -> None:
    found = refused(budget={"max_gpu_hours": 9, "max_trial_hours": 1}, resources={})
    assert "resources.gpus 0" in found["/budget/max_gpu_hours"]
    assert "budget.max_trial_hours alone" in found["/budget/max_gpu_hours"]
    assert parse_spec(RAW | {"budget": {"max_trial_hours": 1}, "resources": {}}).budget.max_trial_hours == 1


def test_a_budget_is_judged_beside_other_mistakes() -> None:
    found = refused(budget={"max_gpu_hours": 9}, space={"loss.beta1": [0, -1]})
    assert set(found) == {"/budget/max_trial_hours", "/space/loss.beta1"}


@pytest.mark.parametrize("hours", [0, -1, float("inf"), float("nan")])
def test_limits_are_numbers_above_0(hours: float) -> None:
    assert set(refused(budget={"max_trial_hours": hours})) == {"/budget/max_trial_hours"}


def test_a_budget_that_the_confirm_stage_would_use_up_is_refused_with_the_numbers() -> None:
    assert stage_counts(parse_spec(RAW)) == (14, 12)
    found = refused(budget={"max_gpu_hours": 31, "max_trial_hours": 1})
    assert found == {
        "/budget/max_gpu_hours": "31 GPU-hours are too few: a trial may take 2, the confirm stage may take 24 "
        "(12 trials), the probe 2, the baselines and one config 6; with every config on one tune seed it is 40; take "
        "fewer confirm seeds, a lower max_trial_hours or more hours"
    }
    assert parse_spec(RAW | {"budget": {"max_gpu_hours": 32, "max_trial_hours": 1}})


def test_a_sampler_needs_all_seeds_of_a_proposal() -> None:
    search = {"strategy": "random", "num_configs": 4}
    enough = {"max_gpu_hours": 2 * (6 + 12), "max_trial_hours": 1}
    assert parse_spec(RAW | {"search": search, "budget": enough, "probe": "off"})
    found = refused(search=search, budget=enough)["/budget/max_gpu_hours"]
    assert "the probe 2, the baselines and one config 12; take fewer confirm seeds" in found


def test_without_a_confirm_stage_the_baselines_and_one_config_must_fit() -> None:
    found = refused(budget={"max_gpu_hours": 7, "max_trial_hours": 1}, seeds={"tune": [0]})
    assert "confirm" not in found["/budget/max_gpu_hours"]
    assert parse_spec(RAW | {"budget": {"max_gpu_hours": 8, "max_trial_hours": 1}, "seeds": {"tune": [0]}})


def test_a_plan_says_the_worst_case_and_how_many_trials_are_sure_to_begin() -> None:
    plan = make_plan(limited(max_gpu_hours=40, max_trial_hours=1), None)
    assert plan.budget is not None
    assert plan.budget.model_dump() == {
        "worst_gpu_hours": 54.0,
        "max_gpu_hours": 40.0,
        "kept_for_confirm": 24.0,
        "kept_for_benchmarks": 0.0,
        "sure_tune_trials": 7,
    }
    (said,) = [warning for warning in plan.warnings if "max_gpu_hours" in warning]
    assert said.startswith("budget.max_gpu_hours 40 is sure to suffice for 7 of 14 tune trials")
    assert "54 would suffice for all" in said


@pytest.mark.parametrize("budget", [{"max_gpu_hours": 54, "max_trial_hours": 1}, {"max_trial_hours": 1}, {}])
def test_a_plan_warns_of_no_budget_that_suffices(budget: dict[str, float]) -> None:
    plan = make_plan(limited(**budget), None)
    assert not [warning for warning in plan.warnings if "budget." in warning]
    assert (plan.budget is None) == (not budget)
    assert plan.budget is None or plan.budget.sure_tune_trials == 14


def test_a_plan_warns_of_trials_that_would_be_stopped() -> None:
    plan = make_plan(limited(max_trial_hours=1), 20.0)
    assert any("budget.max_trial_hours 1 would stop it as failed" in warning for warning in plan.warnings)
