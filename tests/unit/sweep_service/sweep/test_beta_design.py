"""What a plan says of a sweep over betas before it starts."""

from typing import Any

import pytest

from sweep_service.sweep.beta_design import beta_design_warnings, smallest_design
from sweep_service.sweep.plan import make_plan
from sweep_service.sweep.spec import SweepSpec

BOTH = {"loss.beta1": [0.25, 0.5], "loss.beta2": [0.5, 1.0]}
ONE = {"loss.beta1": [0.25, 0.5, 0.75], "loss.beta2": 1.0}
RANGE = {"type": "float", "low": 0, "high": 1}
RANDOM = {"strategy": "random", "num_configs": 8}


def make(space: dict[str, Any], tune: int, **changes: Any) -> SweepSpec:
    raw = {
        "name": "s",
        "training": {"loss": {"name": "ce_gppo"}},
        "space": space,
        "seeds": {"tune": [*range(tune)]},
    }
    return SweepSpec.model_validate(raw | changes)


def confirming(top_k: int, seeds: int, tune: int = 2) -> dict[str, Any]:
    confirm = {"top_k": top_k, "seeds": [*range(100, 100 + seeds)]}
    return {"tune": [*range(tune)], "confirm": confirm}


def test_a_grid_on_three_tune_seeds_can_carry_both_claims() -> None:
    assert beta_design_warnings(make(BOTH, 3)) == []


def test_two_tune_seeds_cannot_and_the_plan_names_the_smallest_design_that_can() -> None:
    said = (
        "beta1 and beta2 vary, but the report can claim nothing of what they do to entropy: its interval is over tune "
        "seeds, and 2 are fewer than 3; the smallest design that can: a grid of 2 values of beta1 x 2 values of beta2 "
        "on 3 tune seeds, 12 trials without baselines"
    )
    assert beta_design_warnings(make(BOTH, 2)) == [said]
    assert said in make_plan(make(BOTH, 2), None).warnings


def test_one_beta_needs_half_as_many_trials() -> None:
    (said,) = beta_design_warnings(make(ONE, 1))
    assert said.startswith("beta1 varies, but the report can claim nothing of what it does to entropy")
    assert said.endswith(smallest_design(["beta1"]))
    assert "6 trials" in said


@pytest.mark.parametrize(
    ("space", "seeds", "carried"),
    [
        (ONE, confirming(2, 3), True),
        (ONE, confirming(1, 3), False),
        (ONE, confirming(2, 2), False),
        (BOTH, confirming(2, 5), False),
        (BOTH, confirming(3, 5), True),  # three of four points: two share their beta2
        (ONE | {"optimizer.learning_rate": RANGE | {"low": 1e-5}}, confirming(5, 5), False),
    ],
)
def test_a_confirm_stage_carries_them_where_chosen_configs_must_differ_in_one_beta_alone(
    space: dict[str, Any], seeds: dict[str, Any], carried: bool
) -> None:
    search = RANDOM if "optimizer.learning_rate" in space else {"strategy": "grid"}
    assert (beta_design_warnings(make(space, 2, seeds=seeds, search=search)) == []) is carried


def test_random_points_differ_in_more_than_one_beta() -> None:
    (said,) = beta_design_warnings(make({"loss.beta1": RANGE, "loss.beta2": RANGE}, 5, search=RANDOM))
    assert "points drawn by random need not differ in one beta alone" in said
    assert beta_design_warnings(make({"loss.beta1": RANGE}, 3, search=RANDOM)) == []


def test_a_schedule_or_too_few_rollouts_leave_no_slope() -> None:
    loss = {"name": "ce_gppo", "schedule": [{"step": 8, "beta1": 0.5}]}
    assert "a schedule changes the betas" in beta_design_warnings(make(ONE, 3, training={"loss": loss}))[0]
    short = {"loss": {"name": "ce_gppo"}, "steps": 56}
    assert (
        "a trial has 7 rollouts, and a line through its entropy needs 8"
        in (beta_design_warnings(make(ONE, 3, training=short))[0])
    )


def test_only_sweeps_over_betas_of_ce_gppo_are_told() -> None:
    assert beta_design_warnings(make({"loss.epsilon": [0.2, 0.3]}, 1)) == []
    assert beta_design_warnings(make({"loss.name": ["grpo", "ce_gppo"]}, 1)) == []
