"""The bases of all policy losses: the parameters they take and the output they return.

Shapes: B sequences, T completion tokens (padded width). Torch is imported for type checkers only, so parameters can
be validated where torch is not installed; formulas use tensor methods.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import inf
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Final,
    Literal,
    NamedTuple,
    Self,
    cast,
    get_args,
    get_origin,
)

from pydantic import BaseModel, ConfigDict, Field, model_validator

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torch import Tensor

AggregationName = Literal["token_mean", "seq_mean_token_mean", "seq_mean_token_sum", "seq_mean_token_sum_norm"]

Region = Literal["na_lp", "pa_lp", "pa_low", "na_high"]

REGIONS: Final[dict[Region, str]] = {
    "na_lp": "A < 0 and ratio < 1 - epsilon_low",  # PPO drops these tokens, beta1 weighs them
    "pa_lp": "A > 0 and ratio > 1 + epsilon_high",  # PPO drops these tokens, beta2 weighs them
    "pa_low": "A > 0 and ratio < 1 - epsilon_low",  # never clipped
    "na_high": "A < 0 and ratio > 1 + epsilon_high",  # never clipped, up to the dual clip
}
"""The tokens whose ratio left the clip bounds, by name."""

PARTS: Final[tuple[str, ...]] = (*REGIONS, "inside")
"""Partition of all tokens: the regions, and the rest (a ratio inside the bounds, or no advantage)."""


MAX_STEPS: Final = 10_000_000
"""Largest number of optimizer updates, and of whatever is counted in them; databases hold 2,147,483,647."""
NO_BOUND: Final = 1e9
"""Largest bound on a ratio; no ratio reaches it, so it is none."""
_LARGEST: Final = 10**30
"""Magnitude beyond which a number is above every bound, and may be too large to be compared with one."""
_NO_NUMBER: Final = object()


class Params(BaseModel):
    """Immutable parameters; unknown names, NaN, infinity and truth values in place of numbers are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _plain_numbers(cls, data: object) -> object:
        """Have the fields refuse what pydantic would take for a number, or could not compare with a bound."""
        if not isinstance(data, dict):
            return data
        values = cast("dict[str, object]", data)
        plain = {name: _plain_number(values[name]) for name in _number_fields(cls) & values.keys()}
        return {**values, **plain} if plain else values

    def _refusals(self) -> Iterator[str]:
        """Yield the reasons why these values cannot be used together, each with its remedy."""
        yield from ()

    @model_validator(mode="after")
    def _usable(self) -> Self:
        if reasons := "; ".join(self._refusals()):
            raise ValueError(reasons)
        return self


def _plain_number(value: object) -> object:
    if isinstance(value, list | tuple):
        return [_plain_number(item) for item in cast("Sequence[object]", value)]
    if isinstance(value, bool):
        return _NO_NUMBER
    if isinstance(value, int | float) and _LARGEST < abs(value) < inf:
        return _LARGEST if value > 0 else -_LARGEST
    return value


@cache
def _number_fields(model: type[BaseModel]) -> frozenset[str]:
    """Return the fields whose values are numbers, or lists of numbers, and may not be truth values."""
    kinds = {name: _plain_types(field.annotation) for name, field in model.model_fields.items()}
    return frozenset(name for name, plain in kinds.items() if plain & {int, float} and bool not in plain)


def _plain_types(annotation: object) -> set[object]:
    """Return the types that an annotation is made of, without constraints."""
    arguments = get_args(annotation)
    if get_origin(annotation) is Annotated:
        arguments = arguments[:1]
    return {annotation} if not arguments else set().union(*(_plain_types(argument) for argument in arguments))


def _document_epsilon(schema: dict[str, Any], kind: type[ClipParams]) -> None:
    schema["properties"]["epsilon"] = {
        "type": "number",
        "exclusiveMinimum": 0,
        "exclusiveMaximum": kind.epsilon_below,
        "description": "Sets epsilon_low and epsilon_high to one value; give it instead of them.",
    }


EpsilonLow = Annotated[float, Field(gt=0, lt=1, description="The ratio's lower bound is 1 - epsilon_low.")]
UnlimitedEpsilonLow = Annotated[
    float,
    Field(gt=0, lt=NO_BOUND, description="The ratio's lower bound is 1 - epsilon_low; from 1 on there is none."),
]
"""Goes with `epsilon_below = NO_BOUND` of the class."""
EpsilonHigh = Annotated[float, Field(gt=0, le=NO_BOUND, description="The ratio's upper bound is 1 + epsilon_high.")]
DualClip = Annotated[
    float | None,
    Field(
        gt=1,
        le=NO_BOUND,
        description="Where A < 0, a token whose ratio exceeds this is dropped; above 1 + epsilon_high; null: none.",
    ),
]
AuthorsClamp = Annotated[
    float | None,
    Field(
        gt=0,
        le=40,
        description="Log-ratios are cut at +- this many nats and pass no gradient beyond; null: never, as the authors.",
    ),
]
"""A `log_ratio_clamp` whose default is null."""


class ClipParams(Params):
    """Base of every loss's parameters: bounds on the probability ratio. Each loss adds its literal `name`.

    `epsilon` is accepted as one value for both bounds and stored as two.
    """

    model_config = ConfigDict(json_schema_extra=_document_epsilon)

    own_aggregation: ClassVar[AggregationName] = "token_mean"
    """Aggregation where the configuration names none."""

    fixed_aggregation: ClassVar[AggregationName | None] = None
    """The only aggregation that the loss is defined with, if there is one."""

    epsilon_below: ClassVar[float] = 1.0
    """Upper limit of epsilon_low, and so of `epsilon`, itself excluded."""

    clips_like_ppo: ClassVar[bool] = False
    """True if the epsilons bound the ratio of one token as PPO's do. Then the loss's baselines take them over."""

    epsilon_low: EpsilonLow = 0.2
    epsilon_high: EpsilonHigh = 0.2

    def at(self, step: int) -> Self:
        """Return the parameters after `step` updates; only a schedule makes them differ."""
        return self

    @property
    def low(self) -> float:
        """Lower bound on the ratio."""
        return 1 - self.epsilon_low

    @property
    def high(self) -> float:
        """Upper bound on the ratio."""
        return 1 + self.epsilon_high

    @model_validator(mode="before")
    @classmethod
    def _expand_epsilon(cls, data: object) -> object:
        if not isinstance(data, dict) or "epsilon" not in data:
            return cast("object", data)
        values = dict(cast("dict[str, object]", data))
        epsilon = values.pop("epsilon")
        if also := [name for name in ("epsilon_low", "epsilon_high") if name in values]:
            raise ValueError(f"epsilon {epsilon} sets both bounds, but {' and '.join(also)} is given too; remove one")
        if epsilon is None:
            raise ValueError("epsilon null bounds nothing; give a number, the paper uses 0.2, or leave it out")
        if isinstance(epsilon, bool) or (isinstance(epsilon, int | float) and not 0 < epsilon < cls.epsilon_below):
            raise ValueError(
                f"epsilon {epsilon!s:.40} must lie between 0 and {cls.epsilon_below:g}; the paper uses 0.2"
            )
        return {**values, "epsilon_low": epsilon, "epsilon_high": epsilon}


class TokenRatioParams(ClipParams):
    """Parameters of losses that look at each token's own ratio."""

    log_ratio_clamp: float | None = Field(
        default=20.0,
        gt=0,
        le=40,
        description="Log-ratios are cut at +- this many nats and pass no gradient beyond; null: never. Default: verl.",
    )


class DualClipParams(TokenRatioParams):
    """Parameters of losses whose weight is the ratio where A < 0 and the ratio lies above the bounds."""

    dual_clip: DualClip = 10.0

    def _refusals(self) -> Iterator[str]:
        if self.dual_clip is not None and self.dual_clip <= self.high:
            yield f"dual_clip {self.dual_clip} must exceed 1 + epsilon_high = {self.high:g}; raise it or use null"


class Bounds(NamedTuple):
    """Bounds on the ratio that are not the parameters' own: numbers, or tensors, scalars for a batch or (B, T)."""

    low: Any
    high: Any


@dataclass(frozen=True, eq=False)
class LossOutput:
    """A loss before aggregation.

    Attributes:
        loss_BT: per-token loss, minimised; neither masked nor averaged.
        regions: for each of `REGIONS` a boolean mask (B, T); false at padding and where A = 0.
        ratio_BT: the ratio whose bounds the regions are about, no gradient: the token's, or GSPO's of the sequence.
        selected_BT: tokens the loss singles out beyond the regions: dropped by erc and clip_cov, penalised by kl_cov.
        penalty: a term that is no mean over tokens (erc's penalty), to be added after aggregation; a scalar.
        bounds: of the regions, if the loss found them from the tokens (dcpo, bapo); None: those of its parameters.
    """

    loss_BT: Tensor
    regions: dict[Region, Tensor]
    ratio_BT: Tensor
    selected_BT: Tensor | None = None
    penalty: Tensor | None = None
    bounds: Bounds | None = None


def regions(ratio_BT: Tensor, advantages_BT: Tensor, params: ClipParams | Bounds) -> dict[Region, Tensor]:
    """Mark (B, T) the tokens whose ratio left the bounds, by side and sign of A; a ratio on a bound is inside."""
    below_BT, above_BT = ratio_BT < params.low, ratio_BT > params.high
    positive_BT, negative_BT = advantages_BT > 0, advantages_BT < 0
    return {
        "na_lp": below_BT & negative_BT,
        "pa_lp": above_BT & positive_BT,
        "pa_low": below_BT & positive_BT,
        "na_high": above_BT & negative_BT,
    }
