"""What a sweep of a given size asks, and the smallest difference that it can show. No machine in it."""

import math
from itertools import accumulate
from typing import Any, Final, NamedTuple

from sweep_service.report.statistics.differences import detectable_effect, lower_critical

UPDATES: Final = 8
"""Optimizer updates a rollout, as published: how far ratios go from 1, which the betas act on, follows from it."""
COMPLETIONS: Final = 8
PROMPT_TOKENS: Final = 512
TUNE_SEEDS: Final = 2
EVALUATIONS: Final = 10
"""Of a trial, after the one of the model before training."""
AVERAGED: Final = 3
"""Last evaluations that make a trial's score."""
PROBLEMS: Final = 120
"""Validation problems, about."""
ARMS: Final = 3
"""Confirmed: the best point, PPO clip, DAPO. The matched baseline is PPO clip itself, as only betas are varied."""

SEED_SD: Final = 0.02
"""Assumed spread of a score over training seeds; the low end of what bench/recorded_sweeps.json has, 0.017 to 0.097."""
_SAMPLE_VARIANCE: Final = 1 / 6
"""Of one right or wrong answer, where solve rates are spread evenly between 0 and 1."""


class Design(NamedTuple):
    """How much of everything; prompts are those trained on in a rollout."""

    response: int
    """Tokens at most."""
    prompts: int
    rollouts: int
    """Of one trial."""
    confirm: int
    """Seeds."""
    samples: int
    """Of each validation problem."""

    @property
    def smallest_difference(self) -> float:
        """The true difference from a baseline, in avg@k, that the report would call BETTER with 80 % probability."""
        return difference_shown(self.confirm, self.samples, SEED_SD)


def difference_shown(seeds: int, samples: int, seed_sd: float) -> float:
    """The same for any seed sd; sampling the validation problems adds its part."""
    variance = seed_sd**2 + _SAMPLE_VARIANCE / (PROBLEMS * samples * AVERAGED)
    df = (ARMS - 1) * (seeds - 1)
    return detectable_effect(lower_critical(1, df), df) * math.sqrt(2 * variance / seeds)


_FLOOR: Final = Design(response=1024, prompts=32, rollouts=100, confirm=4, samples=8)
"""Below it a sweep does not answer. By rollout 100 the paper's 7B curves of CE-GPPO and GRPO were 5 points apart."""
_GROWTH: Final[tuple[dict[str, Any], ...]] = (
    {"response": 1536},
    {"response": 2048},
    {"response": 3072},
    {"response": 4096},
    {"confirm": 5},
    {"prompts": 64},
    {"confirm": 6},
    {"rollouts": 200},
    {"confirm": 8},
    {"prompts": 128},
    {"samples": 16},
    {"rollouts": 300},
    {"confirm": 10},
    {"response": 8192},
    {"rollouts": 500},
    {"confirm": 12},
    {"response": 16384},
    {"samples": 32, "rollouts": 1000},
)
"""What more time buys, in this order."""


def designs(longest: int) -> list[Design]:
    """All designs, each at least as good as the one before in everything, and dearer.

    Args:
        longest: response, in tokens, that the model's context leaves room for.
    """
    grown = accumulate(_GROWTH, lambda design, more: design._replace(**more), initial=_FLOOR)
    found = [design._replace(response=min(design.response, longest)) for design in grown]
    return list(dict.fromkeys(found))


def floor_response() -> int:
    """The shortest response, in tokens, that is planned."""
    return _FLOOR.response
