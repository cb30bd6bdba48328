"""Settings of the rules that drop configs before their last tune seed or step; the rules are in `stopping`. Pure."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from trainers.config import Frozen


class Paired(Frozen):
    """Drops what is proved worse than another config, on the same seeds and problems."""

    rule: Literal["paired"] = "paired"
    level: float = Field(
        default=0.05,
        ge=0.0001,
        le=0.25,
        description="Largest chance that it drops the best config, over all looks together.",
    )


class Rungs(Frozen):
    """Lets only the best go on, after a quarter of the tune seeds and after half of them."""

    rule: Literal["rungs"] = "rungs"


class Median(Frozen):
    """Drops a config of which a run's best evaluation is below the median of other runs' means."""

    rule: Literal["median"] = "median"
    grace: float = Field(default=0.25, ge=0.25, le=0.9, description="Share of the steps before which no run ends.")
    min_runs: int = Field(default=5, ge=1, le=1000, description="Other runs that must have got as far.")


class Asha(Frozen):
    """Drops a config of which a run is not among the best part at a rung: asynchronous successive halving."""

    rule: Literal["asha"] = "asha"
    grace: float = Field(default=0.25, ge=0.25, le=0.9, description="Share of the steps at the first rung.")
    reduction: int = Field(default=3, ge=2, le=10, description="One of so many runs goes on, for so many times longer.")


EarlyStopping = Annotated[Paired | Rungs | Median | Asha, Field(discriminator="rule")]


def _named(value: object) -> object:
    """Let a rule's name stand for the rule with its own settings."""
    return {"rule": value} if isinstance(value, str) else value


SpecEarlyStopping = Annotated[EarlyStopping | None, BeforeValidator(_named)]


def looks_at_all(rule: EarlyStopping) -> bool:
    """Return True if a rule compares all configs at once, so that they must be known when the first seed is over."""
    return isinstance(rule, Paired | Rungs)
