from typing import Any

import pytest

from trainers.config import TrainingConfig
from trainers.training.inert_betas import InertBetas

SIZES = {"prompts_per_rollout": 32, "prompts_per_minibatch": 8}
"""Four updates a rollout."""


def config(steps: int = 120, loss: str = "ce_gppo") -> TrainingConfig:
    return TrainingConfig.model_validate({"loss": {"name": loss}, "rollout": SIZES, "steps": steps})


def metrics(share: float | None, weight: float | None = 1.0, tokens: float = 100) -> dict[str, float | None]:
    return {"weight_share/potential": share, "weight/potential": weight, "tokens/step": tokens}


def warnings(rule: InertBetas, steps: list[dict[str, float | None]], first: int = 1) -> list[dict[str, Any]]:
    found = [rule.after_step(step, values) for step, values in enumerate(steps, first)]
    return [warning for warning in found if warning]


def test_a_small_share_is_warned_of_once_at_the_end_of_a_rollout_past_five_percent() -> None:
    """5 % of 120 steps are 6; the rollout ends with step 8."""
    rule = InertBetas(config())
    assert warnings(rule, [metrics(1e-4)] * 7) == []
    warning = rule.after_step(8, metrics(1e-4))
    assert warning is not None
    assert warning["code"] == "BETAS_NEARLY_INERT"
    assert warning["evidence"] == {"share": pytest.approx(1e-4), "threshold": 0.001, "steps": 8}
    assert "first 8 steps" in warning["message"]
    assert "0.0001" in warning["message"]
    assert warnings(rule, [metrics(1e-4)] * 112, first=9) == []


def test_shares_are_of_the_sum_over_all_tokens_so_far() -> None:
    """One step of large weights counts for more than seven small ones, on either side of the threshold."""
    light, heavy = {"weight": 0.1, "tokens": 10}, {"weight": 3.0, "tokens": 200}
    assert warnings(InertBetas(config()), [metrics(0.0015, **heavy), *[metrics(0.0, **light)] * 7]) == []
    (warning,) = warnings(InertBetas(config()), [metrics(0.0, **heavy), *[metrics(0.0015, **light)] * 7])
    assert warning["evidence"]["share"] == pytest.approx(0.0015 * 7 / 607)


def test_a_run_of_few_steps_is_judged_after_its_first_whole_rollout() -> None:
    """Its first update has ratios of 1 only and tells nothing."""
    rule = InertBetas(config(steps=8))
    assert warnings(rule, [metrics(0.0), *[metrics(0.01)] * 7]) == []
    assert len(warnings(InertBetas(config(steps=8)), [metrics(0.0)] * 8)) == 1


def test_steps_without_a_gradient_say_nothing() -> None:
    assert warnings(InertBetas(config()), [metrics(None, weight=0.0)] * 8) == []
    assert warnings(InertBetas(config()), [metrics(None, weight=None)] * 8) == []


def test_where_hardly_a_group_has_a_gradient_the_learning_rate_is_not_blamed() -> None:
    def said(dead: float) -> str:
        steps = [{**metrics(0.0, weight=0.01), "group/zero_spread_share": dead}] * 8
        (warning,) = warnings(InertBetas(config()), steps)
        return warning["message"]

    assert said(0.95).endswith("; 95% of the groups had equal rewards and no gradient: first make rewards differ")
    assert "raise the learning rate" in said(0.5)


def test_losses_without_betas_are_never_warned_of() -> None:
    assert warnings(InertBetas(config(loss="dapo")), [metrics(0.0)] * 120) == []


def test_a_resumed_run_counts_on() -> None:
    steps = [metrics(0.01), *[metrics(0.0)] * 7]
    first = InertBetas(config())
    assert warnings(first, steps[:4]) == []
    second = InertBetas(config())
    second.sums |= first.sums
    assert warnings(second, steps[4:], first=5) == []
    forgetful = InertBetas(config())
    assert len(warnings(forgetful, steps[4:], first=5)) == 1
