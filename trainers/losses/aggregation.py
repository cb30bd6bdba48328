"""Turns per-token losses into one number: the only place that sums over tokens and divides."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, Protocol

from pydantic import Field

from trainers.losses.base import AggregationName, Params

if TYPE_CHECKING:
    from torch import Tensor


class AggregationParams(Params):
    """The rule by which per-token losses become one number."""

    mode: AggregationName | None = Field(default=None, description="null: as the loss defines it.")
    denominator: Literal["window", "active"] = Field(
        default="window",
        description="What a mean divides by: all of the update (TRL), or only groups whose rewards differ (verl).",
    )


class Aggregation(Protocol):
    """Reduce values (B, T) over the tokens where mask (B, T) is true to a scalar.

    `total` replaces the batch's own denominator when a minibatch is handed over in parts: the sum of the parts' results
    is then the result of the whole. Masked values never count, not even NaN; nothing valid gives 0.
    """

    def __call__(self, values_BT: Tensor, mask_BT: Tensor, total: float | Tensor | None = None) -> Tensor: ...  # noqa: D102


def token_mean(values_BT: Tensor, mask_BT: Tensor, total: float | Tensor | None = None) -> Tensor:
    """Mean over all valid tokens; `total` counts tokens. DAPO, CE-GPPO."""
    return _kept(values_BT, mask_BT).sum() / (mask_BT.sum().clamp(min=1) if total is None else _divisor(total))


def seq_mean_token_mean(values_BT: Tensor, mask_BT: Tensor, total: float | Tensor | None = None) -> Tensor:
    """Mean over sequences of the mean over their tokens; `total` counts sequences with a valid token. GRPO's paper."""
    means_B = _kept(values_BT, mask_BT).sum(-1) / mask_BT.sum(-1).clamp(min=1)
    return means_B.sum() / (_sequences(mask_BT) if total is None else _divisor(total))


def seq_mean_token_sum(values_BT: Tensor, mask_BT: Tensor, total: float | Tensor | None = None) -> Tensor:
    """Mean over sequences of the sum over their tokens; `total` counts sequences with a valid token."""
    return _kept(values_BT, mask_BT).sum() / (_sequences(mask_BT) if total is None else _divisor(total))


def seq_mean_token_sum_norm(values_BT: Tensor, mask_BT: Tensor, total: float | Tensor | None = None) -> Tensor:
    """Sum over all tokens divided by the padded width T, as verl does (not by B); `total` replaces T. Dr. GRPO."""
    return _kept(values_BT, mask_BT).sum() / (values_BT.shape[-1] if total is None else _divisor(total))


AGGREGATIONS: Final[dict[AggregationName, Aggregation]] = {
    "token_mean": token_mean,
    "seq_mean_token_mean": seq_mean_token_mean,
    "seq_mean_token_sum": seq_mean_token_sum,
    "seq_mean_token_sum_norm": seq_mean_token_sum_norm,
}


def _kept(values_BT: Tensor, mask_BT: Tensor) -> Tensor:
    return values_BT.masked_fill(~mask_BT, 0.0)


def _divisor(total: float | Tensor) -> float | Tensor:
    """Replace a total of 0 by 1: no token counts anywhere, so the sum over it is 0 and stays 0."""
    return total or 1.0 if isinstance(total, float | int) else total.masked_fill(total == 0, 1)


def _sequences(mask_BT: Tensor) -> Tensor:
    return mask_BT.any(-1).sum().clamp(min=1)
