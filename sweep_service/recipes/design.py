"""Sizes of a sweep, and the smallest difference that a sweep of each size can show, whatever the machine."""

import math
from itertools import accumulate
from typing import Any, Final, NamedTuple

from sweep_service.report.statistics.critical_values import detectable_effect, lower_critical
from sweep_service.report.statistics.differences import MOST_LENT

UPDATES: Final = 8
"""Optimizer updates per rollout, as published. They decide how far ratios go from 1, and so how much betas matter."""
COMPLETIONS: Final = 8
PROMPT_TOKENS: Final = 512
TUNE_SEEDS: Final = 2
EVALUATIONS: Final = 10
"""Number of evaluations of a trial, besides the one before training."""
AVERAGED: Final = 3
"""Number of last evaluations whose mean is a trial's score."""
PROBLEMS: Final = 120
"""Number of validation problems, roughly."""
ARMS: Final = 3
"""Number of confirmed configs: the best point, PPO clip, DAPO. The matched baseline is PPO clip, as only betas vary."""

SEED_SD: Final = 0.02
"""Assumed sd of a score over training seeds: the low end of bench/recorded_sweeps.json, which has 0.017 to 0.097."""
_SAMPLE_VARIANCE: Final = 1 / 6
"""Variance of one right or wrong answer, where solve rates are spread evenly between 0 and 1."""


class Design(NamedTuple):
    """The size of a sweep."""

    response: int
    """Largest number of tokens of a response."""
    prompts: int
    """Number of prompts in a rollout that are trained on."""
    rollouts: int
    """Number of rollouts of a trial."""
    confirm: int
    """Number of confirm seeds."""
    samples: int
    """Number of samples of each validation problem."""

    @property
    def smallest_difference(self) -> float:
        """True difference from a baseline, in avg@k, that the report would call AHEAD with 80 % probability."""
        return difference_shown(self.confirm, self.samples, SEED_SD)


def difference_shown(seeds: int, samples: int, seed_sd: float) -> float:
    """Return a design's smallest difference for any sd over seeds, to which sampling validation problems adds."""
    variance = seed_sd**2 + _SAMPLE_VARIANCE / (PROBLEMS * samples * AVERAGED)
    df = seeds - 1 + min((ARMS - 2) * (seeds - 1), MOST_LENT) - 1  # as in `Pairs`
    return detectable_effect(lower_critical(1, df), df) * math.sqrt(2 * variance / seeds)


SMALLEST: Final = Design(response=1024, prompts=32, rollouts=100, confirm=4, samples=8)
"""The smallest useful design: by rollout 100 the paper's 7B curves of CE-GPPO and GRPO are 5 points apart."""
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
"""Steps by which a design grows with more time, in this order."""


def designs(longest: int) -> list[Design]:
    """Return all designs, each at least as large in every size as the one before.

    Args:
        longest: number of tokens that the model's context leaves for a response.
    """
    grown = accumulate(_GROWTH, lambda design, more: design._replace(**more), initial=SMALLEST)
    return list(dict.fromkeys(design._replace(response=min(design.response, longest)) for design in grown))
