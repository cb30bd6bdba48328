"""The test record of a policy loss: each test of losses takes its part of it.

The records of the losses in trainers/losses/x.py are `CASES` of tests/losses/x.py, by the losses' names.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

Settings = dict[str, Any]
Weight = Callable[[float, float, Any], float]
"""Gradient weight, the factor on A grad log pi, as a function of ratio, advantage and params. No code of a loss."""

LOW, HIGH, DUAL = 0.5, 2.0, 3.0
"""Bounds on the ratio in every `LossCase.formula`, and the dual clip of those that have one."""

BOUNDS = {"epsilon_low": 0.15, "epsilon_high": 0.25, "dual_clip": 7.0, "log_ratio_clamp": 15.0}
"""Settings that PPO clip takes over from a loss that bounds ratios as it does."""
ERC = {"mode": "mask", "low": 0.9, "high": 1.1}
PPO_OWN = {"name": "grpo", "epsilon_low": 0.2, "epsilon_high": 0.2}
"""PPO clip for a loss whose bounds mean something else."""


@dataclass(frozen=True)
class Twin:
    """Settings of a loss, and the fields in which the plain `Rule` for them differs from PPO clip without a name."""

    settings: Settings
    rule: Settings
    training: Settings = field(default_factory=dict)
    """Further settings of the training, as `tiny_config` takes them."""


def plain_epsilons(low: float, high: float) -> tuple[float, float]:
    return 1 - low, high - 1


@dataclass(frozen=True)
class LossCase:
    """The test record of a loss.

    Attributes:
        weight: closed form of the gradient weight, for ratios that `log_ratio_clamp` does not cut.
        variants: settings with which the weight is compared with autograd on a grid of ratios.
        baseline: settings, and the loss that the PPO-clip baseline of a training with them has.
        searched: values that somebody could search for its settings.
        official: names in loss_vectors.json under which official code computes this loss, with the number of vectors.
        formula: settings, beside bounds of `LOW` and `HIGH`, with which each token is compared with the plain formula.
        scenario: settings, beside narrow bounds, of fifty updates that are compared with those of a plain loop.
        mistakes: description -> a snippet of the loss's module, and what takes its place: the comparison with the
            plain formula must see it.
        choices: values to try for parameters that are not `COMMON_CHOICES` of tests/contract/losses.py.
        official_names: official name -> ours, of settings in loss_vectors.json that have neither ours nor a common one.
        epsilons: epsilons of given bounds on the ratio of a token with old probability 1.
        bare: settings with which nothing but ratio and bounds decides a token's weight.
        clamp_drops: a token whose log-ratio is cut passes no gradient.
        weight_by_ratio: the weight depends on ratio and advantage alone, not on the token's old probability.
        looks_at_the_batch: a token's loss depends on other sequences of the batch.
    """

    weight: Weight
    variants: tuple[Settings, ...]
    baseline: tuple[Settings, Settings]
    searched: dict[str, list[Any]]
    official: dict[str, int]
    formula: Twin
    scenario: Twin
    mistakes: dict[str, tuple[str, str]]
    choices: dict[str, st.SearchStrategy[Any]] = field(default_factory=dict)
    official_names: dict[str, str] = field(default_factory=dict)
    epsilons: Callable[[float, float], tuple[float, float]] = plain_epsilons
    bare: Settings = field(default_factory=dict)
    clamp_drops: bool = True
    weight_by_ratio: bool = True
    looks_at_the_batch: bool = False
