"""Importance of parameters: what must come out on made-up sweeps, and when nothing is said."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from sweep_service.report.parts.importance import importance
from tests.unit.sweep_service.report.report_points import tuned

B1, B2, LR = "loss.beta1", "loss.beta2", "optimizer.learning_rate"
SPACE = {
    B1: {"type": "float", "low": 0, "high": 1},
    B2: [0.25, 0.5, 0.75, 1.0],
    LR: {"type": "float", "low": 1e-6, "high": 1e-4, "log": True},
    "loss.epsilon": 0.2,
}


def points(n: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(0)
    return [
        {B1: float(rng.random()), B2: float(rng.choice([0.25, 0.5, 0.75, 1.0])), LR: float(10 ** rng.uniform(-6, -4))}
        | {"loss.epsilon": 0.2}
        for _ in range(n)
    ]


def by_beta1(params: Mapping[str, Any], seed: int) -> float:
    return 0.5 + 0.3 * params[B1] + 0.01 * seed + 0.001 * params[B2]


def test_the_parameter_that_does_it_all_is_first_in_both() -> None:
    found = importance(tuned(SPACE, by_beta1, points=points(30), seeds=(0, 1)))
    assert found.names[0] == B1
    assert sorted(found.names) == [B1, B2, LR]  # not the fixed one
    assert found.fanova[0] > 0.9
    assert found.ped_anova[0] == max(found.ped_anova)
    assert sum(found.ped_anova) == pytest.approx(1)
    assert 0.9 < sum(found.fanova) <= 1 + 1e-9
    assert found.num_configs == 30
    assert "β1 moves the tune mean most" in found.text
    assert "among the best 5 of 30" in found.text
    assert "different questions" in found.text


def test_the_two_methods_may_disagree() -> None:
    """β1 ruins half of the space; among what is left only the learning rate matters."""

    def score(params: Mapping[str, Any], _: int) -> float:
        return (0.0 if params[B1] > 0.5 else 0.7) + 0.03 * (np.log10(params[LR]) + 6)

    found = importance(tuned(SPACE, score, points=points(60), collapsed=lambda params: params[B1] > 0.5))
    lr = found.names.index(LR)
    assert found.names[0] == B1
    assert found.ped_anova[lr] > found.ped_anova[0]
    assert "hangs most on lr" in found.text
    assert "of the configs had a collapsed or diverged trial" in found.text


def test_a_log_scale_is_searched_evenly_over_its_logarithm() -> None:
    found = importance(tuned(SPACE, lambda p, _: float(np.log10(p[LR]) < -5), points=points(60)))
    assert found.names[0] == LR
    assert found.fanova[0] > 0.9


@pytest.mark.parametrize("n", [19, 20])
def test_twenty_configs_are_needed(n: int) -> None:
    assert (importance(tuned(SPACE, by_beta1, points=points(n))) is None) == (n < 20)


def test_equal_results_and_failed_trials_say_nothing() -> None:
    assert importance(tuned(SPACE, lambda *_: 0.5, points=points(25))) is None
    assert importance(tuned(SPACE, lambda p, _: p[B1] if p[B1] > 0.5 else None, points=points(25))) is None


def test_the_same_rows_give_the_same_numbers() -> None:
    facts = tuned(SPACE, by_beta1, points=points(24))
    assert importance(facts) == importance(facts)
