"""The input of every loss, `TokenBatch`. Shapes: B sequences, T completion tokens (padded width)."""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import TYPE_CHECKING, Final, cast

if TYPE_CHECKING:
    from torch import Generator, Tensor

_FLAGS: Final = {"mask_BT", "selected_BT", "correct_B", "active_B"}
_DIFFERENTIABLE: Final = {"logprobs_BT", "entropy_BT", "values_BT"}


@dataclass(frozen=True, eq=False)
class TokenBatch:
    """Completion tokens with everything that a loss needs of them, all (B, T).

    Where `mask_BT` is false every tensor reads 0 and passes no gradient, whatever was handed in (also NaN and
    infinity), so padding cannot leak into a loss.

    The optional parts are read by the losses and terms that need them.

    Attributes:
        logprobs_BT: log-probabilities of the tokens under the policy being trained, in nats; carries the gradient.
        old_logprobs_BT: the same under the policy that generated them; no gradient.
        advantages_BT: advantages, unitless; no gradient.
        mask_BT: true for completion tokens, false for padding; any dtype, kept as bool.
        entropy_BT: full-vocabulary entropy of the policy being trained at each position, in nats; carries a gradient.
        old_entropy_BT: the same under the policy that generated the tokens; no gradient.
        correct_B: whether each completion is right.
        active_B: whether the rewards of each completion's group differ; a group without spread passes no gradient.
        reference_logprobs_BT: log-probabilities of the tokens under the frozen initial model, in nats; no gradient.
        values_BT: values of the critic before each token, unitless; carry the gradient.
        old_values_BT: the same when the rollout was scored; no gradient.
        returns_BT: their targets, NaN where the completion has no reward; no gradient.
        sampling_weight_BT: factor on each token's policy loss, because another engine sampled it; no gradient; None
        stands for 1.
        selected_BT: tokens chosen beforehand by a loss that would else draw them at random (clip_cov).
        generator: generator on the batch's device from which such a loss draws; None for torch's global one.

    Raises: ValueError, if a shape differs from (B, T) of `logprobs_BT`, or from (B,) where a name ends so.
    """

    logprobs_BT: Tensor
    old_logprobs_BT: Tensor
    advantages_BT: Tensor
    mask_BT: Tensor
    entropy_BT: Tensor | None = None
    old_entropy_BT: Tensor | None = None
    correct_B: Tensor | None = None
    active_B: Tensor | None = None
    reference_logprobs_BT: Tensor | None = None
    values_BT: Tensor | None = None
    old_values_BT: Tensor | None = None
    returns_BT: Tensor | None = None
    sampling_weight_BT: Tensor | None = None
    selected_BT: Tensor | None = None
    generator: Generator | None = None

    def __post_init__(self) -> None:
        parts = {name: cast("Tensor", part) for name, part in vars(self).items() if part is not None}
        parts.pop("generator", None)
        shape, mask_BT = tuple(self.logprobs_BT.shape), self.mask_BT.bool()
        for name, part in parts.items():
            if tuple(part.shape) != (shape[:1] if name.endswith("_B") else shape) or len(shape) != 2:
                raise ValueError(
                    f"{name} has shape {tuple(part.shape)}, logprobs_BT {shape}; a loss takes (B, T), and (B,) of _B"
                )
            part = part.bool() if name in _FLAGS else part
            part = part if name in _DIFFERENTIABLE else part.detach()
            object.__setattr__(self, name, part.masked_fill(~mask_BT, 0) if name.endswith("_BT") else part)

    def needed(self, name: str, reader: str) -> Tensor:
        """Return an optional part. Raises: ValueError, if the batch was made without it."""
        part: Tensor | None = getattr(self, name)
        if part is None:
            raise ValueError(f"{reader} reads TokenBatch.{name}, which was not given")
        return part

    def log_ratio_BT(self, clamp: float | None) -> Tensor:
        """Return log pi - log pi_old, in nats. Outside +-`clamp` it is cut and passes no gradient; None: never."""
        log_ratio_BT = self.logprobs_BT - self.old_logprobs_BT
        return log_ratio_BT if clamp is None else log_ratio_BT.clamp(-clamp, clamp)

    def ratio_BT(self, clamp: float | None) -> Tensor:
        """Probability ratio new / old without gradient, from the clamped log-ratio.

        Its value stops at the square root of the dtype's largest number (e^44 in float32), so that it can be multiplied
        and summed.
        """
        import torch

        limit = log(torch.finfo(self.logprobs_BT.dtype).max) / 2
        return self.log_ratio_BT(clamp).detach().clamp(-limit, limit).exp()

    def unit_BT(self, clamp: float | None) -> Tensor:
        """Return 1 with the gradient of log pi, which is r / sg(r); without gradient where the log-ratio is cut."""
        log_ratio_BT = self.log_ratio_BT(clamp)
        return (log_ratio_BT - log_ratio_BT.detach()).exp()
