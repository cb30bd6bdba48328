"""Fifty updates of each loss inside the trainer, and the same rollouts through a plain loop that shares no code.

Both run in float64, so they differ by rounding only: typically by 1e-14 of the largest weight or loss.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

import pytest

from tests.losses.all_cases import CASES
from tests.proof import plain_loop
from tests.proof.float64 import in_float64
from tests.proof.plain_losses import Rule, Values
from tests.proof.plain_rollout import assert_rollout_is_right
from tests.proof.runs import largest_gap, optimization, recorded, tiny_config, weights_of

TOLERANCE = 1e-10
BOUNDS = {"epsilon_low": 0.05, "epsilon_high": 0.08}
CLIPPED = Rule("dapo", low=0.95, high=1.08)

Scenario = tuple[dict[str, Any], Callable[[int], Rule]]


def always(rule: Rule) -> Callable[[int], Rule]:
    return lambda _: rule


SCENARIOS: dict[str, Scenario] = {
    **{
        name: (
            {"loss": {"name": name, **BOUNDS, **case.scenario.settings}, **case.scenario.training},
            always(replace(CLIPPED, name=name, **case.scenario.rule)),
        )
        for name, case in CASES.items()
    },
    "entropy advantages on ce_gppo": (
        {"loss": {"name": "ce_gppo", **BOUNDS}, "advantage__entropy": {"alpha": 0.4, "kappa": 2.0}},
        always(replace(CLIPPED, name="ce_gppo", dual_clip=10.0, beta1=0.5, entropy_advantage=(0.4, 2.0))),
    ),
    "a positive weight that rises, on grpo": (
        {
            "loss": {"name": "grpo", **BOUNDS},
            "advantage__positive_weight": {"weight": 0.25, "rise_from": 10, "rise_until": 40},
        },
        lambda updates: replace(
            CLIPPED, name="grpo", positive_weight=0.25 + 0.75 * min(max((updates - 10) / 30, 0.0), 1.0)
        ),
    ),
    "gtpo": (
        {"loss": {"name": "grpo", **BOUNDS}, "advantage__entropy_reward": {"level": "token", "share": 0.5}},
        always(replace(CLIPPED, name="grpo")),
    ),
    "grpo_s, right with right and wrong with wrong": (
        {"loss": {"name": "grpo", **BOUNDS}, "advantage__entropy_reward": {"level": "sequence", "compared": "set"}},
        always(replace(CLIPPED, name="grpo")),
    ),
    "erc on dapo": (
        {"loss": {"name": "dapo", **BOUNDS, "erc": {"mode": "mask", "low": 0.95, "high": 1.05}}},
        always(replace(CLIPPED, dual_clip=10.0, entropy_band=(0.95, 1.05))),
    ),
    "kl to the initial model": (
        {"loss": {"name": "dapo", **BOUNDS}, "terms": {"kl": {"coefficient": 0.5}}},
        always(replace(CLIPPED, dual_clip=10.0, kl=0.5)),
    ),
    "kl with k2's gradient, by sequences": (
        {
            "loss": {"name": "grpo", **BOUNDS},
            "aggregation": {"mode": "seq_mean_token_mean", "denominator": "active"},
            "terms": {"kl": {"coefficient": 0.5, "estimator": "k3+"}},
        },
        always(replace(CLIPPED, name="grpo", per_sequence=True, only_active=True, kl=0.5, kl_estimator="k3+")),
    ),
    "ppo with a critic": (
        {
            "loss": {"name": "grpo", **BOUNDS},
            "critic": {
                "gae_lambda": 0.9,
                "gamma": 0.98,
                "value_coeff": 0.3,
                "value_clip": 0.05,
                "learning_rate": 0.02,
            },
            "terms": {"kl": {"coefficient": 0.1}},
        },
        always(
            replace(
                CLIPPED,
                name="grpo",
                kl=0.1,
                values=Values(gae_lambda=0.9, gamma=0.98, coefficient=0.3, clip=0.05, learning_rate=0.02),
            )
        ),
    ),
    "ce_gppo with a schedule and both terms": (
        {
            "loss": {
                "name": "ce_gppo",
                **BOUNDS,
                "beta1": 0.0,
                "schedule": [{"step": 10, "beta1": 0.5, "beta2": 0.25}],
            },
            "terms": {"positive_nll": 0.1, "entropy_bonus": {"coefficient": 0.01}},
        },
        lambda updates: replace(
            CLIPPED,
            name="ce_gppo",
            dual_clip=10.0,
            beta1=0.0 if updates < 10 else 0.5,
            beta2=1.0 if updates < 10 else 0.25,
            positive_nll=0.1,
            entropy_bonus=0.01,
        ),
    ),
}


OF_EACH_KIND = {"grpo", "ppo with a critic", "ce_gppo with a schedule and both terms"}
"""The rest differs from these in the formula alone, which other tests compare too; `make test-all` runs it."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in OF_EACH_KIND else pytest.mark.long) for name in SCENARIOS]
)
def test_a_plain_loop_makes_the_same_losses_and_weights(name: str, tmp_path: Path, cache: Path) -> None:
    params, rule_after = SCENARIOS[name]
    config = tiny_config(**params)
    recording = recorded(config, tmp_path, cache)
    model = recording.model(recording.initial)
    with in_float64():
        head = plain_loop.new_head(model.config.hidden_size) if config.critic else None
        updates = list(plain_loop.train(model, rule_after, recording.rollouts, optimization(config), head))
    losses, outside = [update.loss for update in updates], sum((update.outside for update in updates), Counter[str]())
    assert len(losses) == len(recording.losses) == len(recording.logged) == 50
    gap = max(abs(mine - other) for mine, other in zip(losses, recording.losses, strict=True)) / max(map(abs, losses))
    weights = largest_gap(recording.final, weights_of(model))
    print(f"{name}: losses differ by {gap:.1e}, weights by {weights:.1e}")
    assert gap < TOLERANCE
    assert weights < TOLERANCE
    assert recording.logged == pytest.approx(losses, rel=1e-6, abs=1e-7)
    assert largest_gap(recording.final, recording.initial) > 0.02, "a run that changes nothing proves nothing"
    if head is not None:
        trained = {"weight": head.weight_1H.detach(), "bias": head.bias_1.detach()}
        assert largest_gap(recording.heads[-1], trained) < TOLERANCE
        assert trained["weight"].abs().max() > 0.02
    if rule_after(0).high < inf:  # else there are no bounds
        met = [outside[f"{side}, A {sign} 0"] for side in ("above", "below") for sign in "<>"]
        assert min(met) >= 10, f"too few tokens left the bounds to prove anything: {outside}"
    with in_float64():
        for index in range(len(recording.rollouts)):
            assert_rollout_is_right(recording, index, config)
