"""Changes of CE-GPPO's betas during training: a list of switches, or a shape that stands for one."""

from collections.abc import Iterator, Mapping, Sequence
from math import cos, pi
from typing import Annotated, Any, Final, Literal, cast

from pydantic import BeforeValidator, Field, TypeAdapter

from trainers.losses.base import MAX_STEPS, Params

MAX_BETA: Final = 100.0
"""Largest gradient scale; the paper's are at most 1."""

Step = Annotated[int, Field(ge=1, le=MAX_STEPS)]
Beta = Annotated[float, Field(ge=0, le=MAX_BETA)]


class BetaSwitch(Params):
    """A change of the betas during training."""

    step: int = Field(ge=1, le=MAX_STEPS, description="Optimizer updates made before the change.")
    beta1: float | None = Field(default=None, ge=0, le=MAX_BETA, description="New value; null: unchanged.")
    beta2: float | None = Field(default=None, ge=0, le=MAX_BETA, description="New value; null: unchanged.")
    ramp: int = Field(default=0, ge=0, le=MAX_STEPS, description="Updates until the new value is reached; 0: at once.")
    curve: Literal["linear", "cosine"] = Field(
        default="linear",
        exclude_if=lambda curve: curve == "linear",
        description="Way to the new value: at one pace, or slowly at both ends.",
    )

    def share(self, step: int) -> float:
        """Return the share of the change that is made after `step` updates, from 0 to 1."""
        if step < self.step:
            return 0.0
        share = min(1.0, (step - self.step) / self.ramp) if self.ramp else 1.0
        return share if self.curve == "linear" or share == 1 else (1 - cos(pi * share)) / 2

    def _refusals(self) -> Iterator[str]:
        if self.beta1 is None and self.beta2 is None:
            yield f"the switch at step {self.step} changes nothing; give beta1 or beta2, or remove it"


class RampShape(Params):
    """One way from the loss's betas to others."""

    shape: Literal["linear", "cosine"]
    start: Step = Field(default=1, description="Optimizer updates made before the betas begin to change.")
    over: Step = Field(description="Updates until the new values are reached.")
    beta1: Beta | None = Field(default=None, description="Last value; null: unchanged.")
    beta2: Beta | None = Field(default=None, description="Last value; null: unchanged.")

    def switches(self) -> Sequence[dict[str, Any]]:
        """Return the switches that the shape stands for."""
        betas = {"beta1": self.beta1, "beta2": self.beta2}
        return [{"step": self.start, "ramp": self.over, "curve": self.shape} | betas]


class StepsShape(Params):
    """Other betas at once, several times."""

    shape: Literal["steps"]
    at: tuple[Step, ...] = Field(min_length=1, max_length=100, description="Updates made before each change.")
    beta1: tuple[Beta, ...] | None = Field(default=None, description="Value from each of them on; null: unchanged.")
    beta2: tuple[Beta, ...] | None = Field(default=None, description="Value from each of them on; null: unchanged.")

    def _refusals(self) -> Iterator[str]:
        for name, values in (("beta1", self.beta1), ("beta2", self.beta2)):
            if values is not None and len(values) != len(self.at):
                yield f"{name} has {len(values)} values for {len(self.at)} steps in at; give one for each"
                return

    def switches(self) -> Sequence[dict[str, Any]]:
        """Return the switches that the shape stands for."""
        values = {name: values for name, values in (("beta1", self.beta1), ("beta2", self.beta2)) if values}
        return [
            {"step": step} | {name: betas[place] for name, betas in values.items()}
            for place, step in enumerate(self.at)
        ]


_SHAPES: Final = TypeAdapter[RampShape | StepsShape](Annotated[RampShape | StepsShape, Field(discriminator="shape")])


def _switches(value: object) -> object:
    """Let a shape stand for its switches."""
    if isinstance(value, Mapping):
        return _SHAPES.validate_python(dict(cast("Mapping[str, object]", value))).switches()
    return value


BetaSchedule = Annotated[
    tuple[BetaSwitch, ...],
    Field(max_length=100),
    BeforeValidator(_switches, json_schema_input_type=RampShape | StepsShape | list[BetaSwitch]),
]
