"""The worlds of validate_claims.py: what beta1 truly does to entropy, in which design, and with which noise."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from sweep_service.sweep.plan import first_records
from sweep_service.sweep.records import Config, Trial
from sweep_service.sweep.spec import SweepSpec

BETA1: Final = (0.25, 0.5, 0.75)
BETA2: Final = (0.5, 0.75, 1.0)
FIVE: Final = (0.5, 0.625, 0.75, 0.875, 1.0)
ONE: Final = (1.0,)
ROLLOUTS: Final = 8
UPDATES: Final = 8  # of a rollout, by default
STEPS: Final = ROLLOUTS * UPDATES
SD: Final = 0.1
"""Standard deviation of a trial's slope of log entropy about its config's and its seed's."""
Slope = Callable[[float, float], float]
"""True slope of log entropy over training at beta1 and beta2, seeds and noise left out."""


def nothing(beta1: float, beta2: float) -> float:
    """Beta1 does nothing; beta2 does much, and not in a straight line."""
    return -1 + 0.8 * beta2**2


def faster(beta1: float, beta2: float) -> float:
    """Entropy falls faster with beta1, at every beta2 alike."""
    return nothing(beta1, beta2) - 0.5 * beta1


def slower(beta1: float, beta2: float) -> float:
    """Entropy falls more slowly with beta1, at every beta2 alike."""
    return nothing(beta1, beta2) + 0.5 * beta1


def crossing(beta1: float, beta2: float) -> float:
    """The effect of beta1 is as large at one end of beta2 as at the other, the other way round."""
    return nothing(beta1, beta2) - 2 * (beta2 - 0.75) * beta1


def uneven_crossing(beta1: float, beta2: float) -> float:
    """The effect of beta1 is -0.8 at the lowest beta2 and 0.2 at the highest."""
    return nothing(beta1, beta2) + (2 * (beta2 - 0.75) - 0.3) * beta1


def slight_crossing(beta1: float, beta2: float) -> float:
    """The effect of beta1 is -0.8 at the lowest beta2 and 0.05 at the highest."""
    return nothing(beta1, beta2) + (1.7 * (beta2 - 0.75) - 0.375) * beta1


def curved(beta1: float, beta2: float) -> float:
    """Beta1 has an effect in its middle only, so that the line through three values is flat."""
    return nothing(beta1, beta2) + 3 * (beta1 - 0.5) ** 2


def turned_in_the_middle(beta1: float, beta2: float) -> float:
    """The effect of beta1 is -0.8 at every beta2 but 0.75, and 0.5 there."""
    return nothing(beta1, beta2) + (0.5 if beta2 == 0.75 else -0.8) * beta1


def nothing_in_the_middle(beta1: float, beta2: float) -> float:
    """The effect of beta1 is -0.8 at every beta2 but 0.75, and none there."""
    return nothing(beta1, beta2) - (0.0 if beta2 == 0.75 else 0.8) * beta1


def strong_at_one(beta1: float, beta2: float) -> float:
    """The effect of beta1 is -2 at the highest beta2, and none at the others."""
    return nothing(beta1, beta2) - (2.0 if beta2 == 1 else 0.0) * beta1


@dataclass(frozen=True)
class ClaimWorld:
    """A line of the table: a truth, a design, and what is unkind about the noise."""

    name: str
    slope: Slope
    tune: int
    """Number of tune seeds."""
    confirm: int = 0
    """Number of confirm seeds; 0 for no confirm stage."""
    beta2: Sequence[float] = BETA2
    """Values of beta2 in the space."""
    noisy: bool = False
    """Whether the highest beta1 has four times the noise, and one config in three three times."""
    seed_effect: float = 0.1
    """Standard deviation of what a seed adds to all its trials."""
    seed_slopes: float = 0.0
    """Standard deviation over seeds of the effect of beta1."""
    skewed: bool = False
    """Whether that effect is exponential over seeds: many lie a little below its mean, few far above."""
    accuracy: float = 0.0
    """How much accuracy rises with beta1, in its own standard deviations."""
    shared: float = 0.0
    """Correlation of a trial's noise in accuracy and in the slope of entropy."""
    failed: float = 0.0
    """Chance that a trial fails."""

    @cached_property
    def spec(self) -> SweepSpec:
        """The sweep's spec."""
        seeds: dict[str, Any] = {"tune": list(range(self.tune))}
        if self.confirm:
            seeds["confirm"] = {"top_k": 2, "seeds": list(range(100, 100 + self.confirm))}
        return SweepSpec.model_validate(
            {
                "name": "simulated",
                "training": {"loss": {"name": "ce_gppo"}, "steps": STEPS},
                "space": {"loss.beta1": list(BETA1), "loss.beta2": list(self.beta2)},
                "seeds": seeds,
            }
        )

    @cached_property
    def first(self) -> tuple[list[Config], list[Trial]]:
        """The configs and trials that the sweep begins with."""
        return first_records(self.spec, "swp_simulated")


def worlds() -> list[ClaimWorld]:
    """Every line of the table."""
    return [
        ClaimWorld("no effect", nothing, 3),
        ClaimWorld("no effect", nothing, 5),
        ClaimWorld("no effect", nothing, 3, 4),
        ClaimWorld("no effect", nothing, 2, 4),
        ClaimWorld("no effect, beta1 alone varies", nothing, 2, 4, beta2=ONE),
        ClaimWorld("no effect, large seed effects", nothing, 3, 4, seed_effect=1.0),
        ClaimWorld("no effect, noisy configs", nothing, 3, 4, noisy=True),
        ClaimWorld("no effect, noisy configs, beta1 alone varies", nothing, 2, 4, beta2=ONE, noisy=True),
        ClaimWorld("no effect, but seeds differ in it", nothing, 3, 4, seed_slopes=0.5),
        ClaimWorld("no effect, but seeds differ in it", nothing, 2, 4, seed_slopes=0.5),
        *(
            ClaimWorld(
                f"no effect, seeds differ by {sd:g}, skewed{name}", nothing, seeds, 0, beta2, False, 0.1, sd, True
            )
            for sd in (0.5, 1.0)
            for name, beta2 in ((", beta1 alone varies", ONE), ("", BETA2))
            for seeds in (3, 4)
        ),
        ClaimWorld("no effect, chosen by what moves entropy", nothing, 2, 4, beta2=ONE, accuracy=1, shared=0.8),
        ClaimWorld("no effect, 10 % of the trials fail", nothing, 3, 4, failed=0.1),
        ClaimWorld("no effect, noisy configs, 10 % fail", nothing, 5, 0, noisy=True, failed=0.1),
        ClaimWorld("curved, flat on average", curved, 3, 4, accuracy=2),
        ClaimWorld("curved, flat on average, beta1 alone varies", curved, 3, 4, beta2=ONE, accuracy=2),
        ClaimWorld("falls faster", faster, 3, 4),
        ClaimWorld("falls faster", faster, 4),
        ClaimWorld("falls faster", faster, 5),
        ClaimWorld("falls faster", faster, 8),
        ClaimWorld("falls faster, five values of beta2", faster, 5, beta2=FIVE),
        ClaimWorld("falls faster, five values of beta2", faster, 8, beta2=FIVE),
        ClaimWorld("falls faster, beta1 alone varies", faster, 2, 4, beta2=ONE),
        ClaimWorld("falls faster, beta1 alone varies", faster, 5, beta2=ONE),
        ClaimWorld("falls more slowly", slower, 5),
        ClaimWorld("even crossing", crossing, 3, 4),
        ClaimWorld("even crossing", crossing, 5),
        ClaimWorld("uneven crossing", uneven_crossing, 3, 4),
        ClaimWorld("uneven crossing", uneven_crossing, 5),
        ClaimWorld("slight crossing", slight_crossing, 3),
        ClaimWorld("slight crossing", slight_crossing, 5),
        ClaimWorld("turned in the middle", turned_in_the_middle, 5),
        ClaimWorld("turned in the middle", turned_in_the_middle, 8),
        ClaimWorld("nothing in the middle", nothing_in_the_middle, 5),
        ClaimWorld("nothing in the middle", nothing_in_the_middle, 8),
        ClaimWorld(
            "nothing in the middle, seeds differ, skewed", nothing_in_the_middle, 4, seed_slopes=0.5, skewed=True
        ),
        ClaimWorld("strong at one value of three", strong_at_one, 5),
        ClaimWorld("strong at one value of five", strong_at_one, 5, beta2=FIVE),
        ClaimWorld(
            "strong at one value of three, seeds differ, skewed", strong_at_one, 4, seed_slopes=0.5, skewed=True
        ),
        ClaimWorld("nothing at one value of five", nothing_in_the_middle, 8, beta2=FIVE),
    ]
