"""What every policy loss shares: the batch it reads, the parameters it takes, the output it returns.

Shapes: B sequences, T completion tokens (padded width). Torch is imported for type checkers only, so parameters can
be validated where torch is not installed; formulas use tensor methods.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Protocol, TypeVar, cast

from pydantic import ConfigDict, Field, model_validator

from trainers.losses.params import Params

if TYPE_CHECKING:
    from typing import Self

    from torch import Generator, Tensor

    from trainers.losses.aggregation import AggregationName

Region = Literal["na_lp", "pa_lp", "pa_low", "na_high"]

REGIONS: Final[dict[Region, str]] = {
    "na_lp": "A < 0 and ratio < 1 - epsilon_low: PPO drops these tokens, beta1 weighs them",
    "pa_lp": "A > 0 and ratio > 1 + epsilon_high: PPO drops these tokens, beta2 weighs them",
    "pa_low": "A > 0 and ratio < 1 - epsilon_low: never clipped",
    "na_high": "A < 0 and ratio > 1 + epsilon_high: never clipped, up to the dual clip",
}


@dataclass(frozen=True, eq=False)
class TokenBatch:
    """Completion tokens and what a loss needs of them, all (B, T).

    Where `mask_BT` is false every tensor reads 0 and passes no gradient, whatever was handed in (also NaN and
    infinity), so padding cannot leak into a loss.

    The optional parts are read by the losses and statistics that need them.

    Attributes:
        logprobs_BT: log-probabilities of the tokens under the policy being trained, in nats; carries the gradient.
        old_logprobs_BT: the same under the policy that generated them; no gradient.
        advantages_BT: advantages, unitless; no gradient.
        mask_BT: true for completion tokens, false for padding; any dtype, kept as bool.
        entropy_BT: full-vocabulary entropy of the policy being trained at each position, in nats; carries a gradient.
        old_entropy_BT: the same under the policy that generated the tokens; no gradient.
        correct_B: whether each completion is right.
        active_B: whether the rewards of each completion's group differ; a group without spread passes no gradient.
        selected_BT: tokens chosen beforehand by a loss that would else draw them at random (clip_cov).
        generator: where such a loss draws from; None: torch's global generator.

    Raises: ValueError, if a shape differs from (B, T) of `logprobs_BT`.
    """

    logprobs_BT: Tensor
    old_logprobs_BT: Tensor
    advantages_BT: Tensor
    mask_BT: Tensor
    entropy_BT: Tensor | None = None
    old_entropy_BT: Tensor | None = None
    correct_B: Tensor | None = None
    active_B: Tensor | None = None
    selected_BT: Tensor | None = None
    generator: Generator | None = None

    def __post_init__(self) -> None:
        shape = tuple(self.logprobs_BT.shape)
        for name in ("old_logprobs_BT", "advantages_BT", "mask_BT"):
            other = tuple(cast("Tensor", getattr(self, name)).shape)
            if other != shape or len(shape) != 2:
                raise ValueError(f"{name} has shape {other}, logprobs_BT {shape}; a loss takes (B, T) for all")
        mask_BT = self.mask_BT.bool()
        object.__setattr__(self, "mask_BT", mask_BT)
        object.__setattr__(self, "logprobs_BT", self.logprobs_BT.masked_fill(~mask_BT, 0.0))
        for name in ("old_logprobs_BT", "advantages_BT", "old_entropy_BT"):
            value = cast("Tensor | None", getattr(self, name))
            if value is not None:
                object.__setattr__(self, name, value.detach().masked_fill(~mask_BT, 0.0))
        if self.entropy_BT is not None:
            object.__setattr__(self, "entropy_BT", self.entropy_BT.masked_fill(~mask_BT, 0.0))

    def needed(self, name: str, reader: str) -> Tensor:
        """An optional part. Raises: ValueError, if it is not there."""
        part: Tensor | None = getattr(self, name)
        if part is None:
            raise ValueError(f"{reader} reads TokenBatch.{name}, which was not given")
        return part

    def ratio_BT(self, log_ratio_clamp: float | None) -> Tensor:
        """Probability ratio new / old. A log-ratio outside +-`log_ratio_clamp` is cut there and passes no gradient."""
        delta_BT = self.logprobs_BT - self.old_logprobs_BT
        if log_ratio_clamp is not None:
            delta_BT = delta_BT.clamp(-log_ratio_clamp, log_ratio_clamp)
        return delta_BT.exp()


class LossParams(Params):
    """Base of every loss's parameters. Each loss adds its literal `name`."""

    own_aggregation: ClassVar[AggregationName] = "token_mean"
    """How the loss is aggregated where nothing else is asked for."""

    fixed_aggregation: ClassVar[AggregationName | None] = None
    """The only aggregation that the loss is defined with, if there is one."""


def _document_epsilon(schema: dict[str, Any]) -> None:
    schema["properties"]["epsilon"] = {
        "type": "number",
        "exclusiveMinimum": 0,
        "exclusiveMaximum": 1,
        "description": "Sets epsilon_low and epsilon_high to one value; give it instead of them.",
    }


class ClipParams(LossParams):
    """Bounds on the probability ratio. `epsilon` is accepted as one value for both sides and stored as two."""

    model_config = ConfigDict(json_schema_extra=_document_epsilon)

    epsilon_low: float = Field(default=0.2, gt=0, lt=1, description="The ratio's lower bound is 1 - epsilon_low.")
    epsilon_high: float = Field(default=0.2, gt=0, description="The ratio's upper bound is 1 + epsilon_high.")
    dual_clip: float | None = Field(
        default=None, description="Bound c on the ratio of tokens with A < 0, above 1 + epsilon_high; null for none."
    )
    log_ratio_clamp: float | None = Field(
        default=20.0,
        gt=0,
        le=80,
        description="Log-ratios are cut at +- this many nats, so that float32 stays finite; null: never.",
    )

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
        if isinstance(epsilon, int | float) and not 0 < epsilon < 1:
            raise ValueError(f"epsilon {epsilon} must lie between 0 and 1; the paper uses 0.2")
        return {**values, "epsilon_low": epsilon, "epsilon_high": epsilon}

    @model_validator(mode="after")
    def _dual_clip_above(self) -> Self:
        if self.dual_clip is not None and self.dual_clip <= self.high:
            raise ValueError(
                f"dual_clip {self.dual_clip} must exceed 1 + epsilon_high = {self.high:g}; raise it or use null"
            )
        return self


@dataclass(frozen=True, eq=False)
class LossOutput:
    """A loss before aggregation.

    Attributes:
        loss_BT: per-token loss, minimised; neither masked nor averaged.
        regions: for each of `REGIONS` a boolean mask (B, T); false at padding and where A = 0.
        ratio_BT: the ratio whose bounds the regions are about, no gradient: the token's, or GSPO's of the sequence.
        selected_BT: tokens the loss singles out beyond the regions: dropped by erc and clip_cov, penalised by kl_cov.
        penalty: a term that is no mean over tokens (erc's penalty), to be added after aggregation; a scalar.
    """

    loss_BT: Tensor
    regions: dict[Region, Tensor]
    ratio_BT: Tensor
    selected_BT: Tensor | None = None
    penalty: Tensor | None = None


P = TypeVar("P", bound=LossParams, contravariant=True)


class PolicyLoss(Protocol[P]):
    """A pure function from a batch and parameters to a per-token loss."""

    def __call__(self, batch: TokenBatch, params: P, /) -> LossOutput: ...  # noqa: D102


def regions(ratio_BT: Tensor, advantages_BT: Tensor, params: ClipParams) -> dict[Region, Tensor]:
    """Masks (B, T) of the tokens whose ratio left the bounds, by side and sign of A; a ratio on a bound is inside."""
    below_BT, above_BT = ratio_BT < params.low, ratio_BT > params.high
    positive_BT, negative_BT = advantages_BT > 0, advantages_BT < 0
    return {
        "na_lp": below_BT & negative_BT,
        "pa_lp": above_BT & positive_BT,
        "pa_low": below_BT & positive_BT,
        "na_high": above_BT & negative_BT,
    }


def dual_clipped(objective_BT: Tensor, advantages_BT: Tensor, bound: float | None) -> Tensor:
    """Keep the objective of tokens with A < 0 at or above bound * A; beyond it they pass no gradient."""
    if bound is None:
        return objective_BT
    return objective_BT.maximum(bound * advantages_BT).where(advantages_BT < 0, objective_BT)
