"""The values that one parameter may take: `Float`, `Int`, `Categorical`, `Fixed`, and their union `Distribution`."""

import json
import sys
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from operator import not_
from typing import Annotated, Any, Final, Literal, Self, TypeGuard, cast

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from search_spaces.written_numbers import as_written

Scalar = bool | int | float | str | None
Value = Annotated[Scalar, AfterValidator(as_written)]

_LONGEST_NAME: Final = 80
_LARGEST: Final = 1e100
_EXACT = 2**53  # the largest range of integers that JSON readers and Optuna's floats keep apart


def _number(value: object) -> object:
    """Refuse truth values, which pydantic takes for 1 and 0."""
    if isinstance(value, bool):
        raise ValueError(f"{str(value).lower()} is not a number; write 1 or 0 if you mean one")
    return value


def _moderate(value: float) -> float:
    """Refuse an end of a range so large that the range's length, or its square, is none that a float holds."""
    if abs(value) > _LARGEST:
        raise ValueError(f"{value:g} is beyond {_LARGEST:g}; no setting is as large")
    return value


Number = Annotated[float, BeforeValidator(_number), AfterValidator(_moderate), AfterValidator(as_written)]
WholeNumber = Annotated[int, Field(ge=-_EXACT, le=_EXACT), BeforeValidator(_number)]


class Base(BaseModel):
    """Base of the distributions: immutable, unknown keys refused, no NaN or infinity; by itself a list of values."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @property
    def edges(self) -> Sequence[Scalar]:
        """Values that stand for all others when a spec is checked against training; of a list, every value."""
        raise NotImplementedError

    @property
    def size(self) -> int | None:
        """Number of values; None for a continuum."""
        return len(self.edges)

    def at(self, index: int) -> Scalar:
        """Return value number `index`, from 0 to size - 1."""
        return self.edges[index]

    def contains(self, value: object) -> bool:
        """Say whether it is one of the values; 1 and 1.0 are the same, 1 and True are not."""
        return any(edge == value and isinstance(edge, bool) == isinstance(value, bool) for edge in self.edges)

    def whole(self, value: Scalar) -> Any:
        """Return what a value of the distribution stands for: itself, but for names of whole values."""
        return value


class Float(Base):
    """A real number from low to high, both included; `log` spreads draws evenly over its logarithm."""

    type: Literal["float"] = "float"
    low: Number
    high: Number
    log: bool = False
    step: Annotated[Number, Field(gt=0)] | None = Field(
        default=None, description="Distance between values; null for a continuum."
    )

    @model_validator(mode="after")
    def _range(self) -> Self:
        _check_range(self.low, self.high, self.log, self.step)
        if self.size is not None and self.size > _EXACT + 1:
            raise ValueError(f"step {self.step} is too small for the range {self.low} to {self.high}")
        if self.size is not None and (self.at(1) == self.low or self.at(self.size - 2) == self.high):
            raise ValueError(f"step {self.step} is too small: numbers near {self.low} or {self.high} lie further apart")
        return self

    @property
    def size(self) -> int | None:
        """Number of values; None for a continuum."""
        return None if self.step is None else _steps(self.low, self.high, self.step) + 1

    @property
    def edges(self) -> Sequence[float]:
        """The values low and high."""
        return (self.low, self.high)

    def at(self, index: int) -> float:
        """Return low + index x step, rounded once (0.3, not 0.30000000000000004)."""
        assert self.step is not None
        return float(_exact(self.low) + index * _exact(self.step))

    def snap(self, value: float) -> float:
        """Return the nearest value that the step allows."""
        if self.step is None:
            return min(max(value, self.low), self.high)
        return self.at(round((_exact(value) - _exact(self.low)) / _exact(self.step)))

    def contains(self, value: object) -> bool:
        """Say whether it is one of the values."""
        return is_number(value) and self.low <= value <= self.high and self.snap(value) == value


class Int(Base):
    """A whole number from low to high, both included."""

    type: Literal["int"] = "int"
    low: WholeNumber
    high: WholeNumber
    log: bool = False
    step: Annotated[WholeNumber, Field(ge=1)] = 1

    @model_validator(mode="after")
    def _range(self) -> Self:
        _check_range(self.low, self.high, self.log, self.step if self.step > 1 else None)
        return self

    @property
    def size(self) -> int:
        """Number of values."""
        return (self.high - self.low) // self.step + 1

    @property
    def edges(self) -> Sequence[int]:
        """The values low and high."""
        return (self.low, self.high)

    def at(self, index: int) -> int:
        """Return low + index x step."""
        return self.low + index * self.step

    def contains(self, value: object) -> bool:
        """Say whether it is one of the values."""
        return is_number(value) and self.low <= value <= self.high and (value - self.low) % self.step == 0


class Categorical(Base):
    """One of a list of values, in no order.

    A choice may stand for a whole value, such as a schedule, a reward, or a loss with its parameters: `values` has it
    by the choice's name. Mappings and lists among the choices are given names, `whole_name` of each.

        {"choices": ["flat", "late"], "values": {"flat": [], "late": [{"step": 200, "beta1": 0.1}]}}
    """

    type: Literal["categorical"] = "categorical"
    choices: tuple[Value, ...] = Field(min_length=1, max_length=1000)
    values: dict[str, Any] = Field(
        default={}, exclude_if=not_, description="Whole value that a choice stands for; others are values themselves."
    )

    @model_validator(mode="before")
    @classmethod
    def _name_whole_values(cls, data: object) -> object:
        """Take `values` alone for all choices, and give whole values among the choices their names."""
        if not isinstance(data, Mapping):
            return data
        document = dict(cast("Mapping[str, Any]", data))
        values, choices = as_written(document.get("values", {})), document.get("choices")
        if not isinstance(values, Mapping) or not isinstance(choices, list | tuple | None):
            return document
        named = dict(cast("Mapping[str, Any]", values))
        listed = list(named) if choices is None else list[Any]()
        for choice in cast("Sequence[Any]", choices or ()):
            if isinstance(choice, Mapping | list | tuple):
                whole = as_written(choice)
                choice = whole_name(whole)
                named[choice] = whole
            listed.append(choice)
        return document | {"choices": listed} | ({"values": named} if named else {})

    @model_validator(mode="after")
    def _checked(self) -> Self:
        seen = set[Scalar]()
        for choice in self.choices:
            _check_magnitude(choice)
            if choice in seen:
                equal = "true equals 1, false equals 0, and 0.1 + 0.2 equals 0.3"
                raise ValueError(f"choices repeat {choice!r} ({equal}); list each value once")
            seen.add(choice)
        for name, value in self.values.items():
            if name not in self.choices:
                raise ValueError(f"values has {name!r}, which is not among the choices; add it to them")
            if not name.strip() or not name.isprintable():
                raise ValueError(f"values has the name {name!r}; give it one that can be read in a table")
            if not isinstance(value, Mapping | list | tuple):
                raise ValueError(f"values.{name} is {value!r:.60}, a plain value; list it among the choices instead")
            try:
                json.dumps(value, allow_nan=False)
            except (TypeError, ValueError) as error:
                raise ValueError(f"values.{name} cannot be written as JSON: {error}; give plain values") from None
        return self

    @property
    def edges(self) -> Sequence[Scalar]:
        """All values of the list, the whole ones by their names."""
        return self.choices

    def whole(self, value: Scalar) -> Any:
        """Return what a choice stands for: the whole value of this name, else the choice itself."""
        return self.values[value] if isinstance(value, str) and value in self.values else value


class Fixed(Base):
    """One value."""

    type: Literal["fixed"] = "fixed"
    value: Value

    @model_validator(mode="after")
    def _magnitude(self) -> Self:
        _check_magnitude(self.value)
        return self

    @property
    def edges(self) -> Sequence[Scalar]:
        """The value."""
        return (self.value,)


def whole_name(value: object) -> str:
    """Return the name of a whole value that was given none, such as `ce_gppo beta1=0.5`.

    Raises: ValueError, if it would be too long to be read in a table.
    """
    try:
        name = _written(value)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{value!r:.60} cannot be written as JSON: {error}; give plain values") from None
    if len(name) > _LONGEST_NAME:
        raise ValueError(
            f"{name[:_LONGEST_NAME]}… is too long for a table; give the value a name: "
            "{type: categorical, values: {NAME: …}}"
        )
    return name


def _written(value: object) -> str:
    if isinstance(value, Mapping):
        items = dict(cast("Mapping[str, object]", value))
        first = [str(items.pop(key)) for key in ("name", "shape") if isinstance(items.get(key), str)]
        return " ".join([*first, *(f"{key}={_inner(part)}" for key, part in items.items())]) or "{}"
    return _inner(value)


def _inner(value: object) -> str:
    if isinstance(value, Mapping):
        return f"{{{_written(cast('object', value))}}}" if value else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_inner, cast('Sequence[object]', value)))}]"
    return value if isinstance(value, str) else json.dumps(value)


Distribution = Annotated[Float | Int | Categorical | Fixed, Field(discriminator="type")]
"""One of the four distributions; in a mapping `type` says which."""


def _check_range(low: float, high: float, log: bool, step: float | None) -> None:
    if not low < high:
        raise ValueError(f"low {low} must be below high {high}; for a single value write the value itself")
    if log and low <= 0:
        raise ValueError(f"low {low} must be above 0 on a log scale")
    if step is None:
        return
    if log:
        raise ValueError("step and log exclude each other; for a grid on a log scale list the values")
    steps = (_exact(high) - _exact(low)) / _exact(step)
    if steps.denominator != 1:
        last = type(high)(_exact(low) + int(steps) * _exact(step))
        raise ValueError(f"high {high} is not low {low} plus a multiple of step {step}; the last value would be {last}")


def _check_magnitude(value: Scalar) -> None:
    if isinstance(value, int) and abs(value) > sys.float_info.max:
        raise ValueError(f"{value!s:.20}… is larger than any number that is counted with; write it as a text")


@lru_cache(maxsize=1000)
def _steps(low: float, high: float, step: float) -> int:
    """Return how many whole steps fit; a grid asks for every point again."""
    return int((_exact(high) - _exact(low)) / _exact(step))


@lru_cache(maxsize=1000)
def _exact(value: float) -> Fraction:
    """Return the number exactly as it is written, so that 0.1 + 0.2 is 0.3."""
    return Fraction(str(value))


def is_number(value: object) -> TypeGuard[int | float]:
    """Say whether a value is a finite number, which true and false are not."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max
