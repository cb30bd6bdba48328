"""A fixed set of completions of the initial policy, on which the trained policy is measured.

The entropy of a policy's own completions also changes because prompts, lengths and texts do; here only the policy does.
Shapes: B completions, T completion tokens with padding.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Self

import torch
from torch import Tensor

from trainers.rollouts.rollout import padded

Forward = Callable[[Mapping[str, Tensor]], tuple[Tensor, Tensor]]
"""Log-probabilities and full-vocabulary entropies (B, T) of the present policy, in nats, at the sampling temperature.

It is given `prompt_ids`, `prompt_mask`, `completion_ids` and `completion_mask`, on the CPU.
"""


@dataclass(frozen=True, eq=False)
class Probe:
    """Completions, and how likely the policy that sampled them finds each of their tokens; kept on the CPU."""

    METRICS: ClassVar[tuple[str, ...]] = ("probe/entropy", "probe/kl_from_initial", "probe/kl_from_initial_k3")

    rows: dict[str, Tensor]
    """What a `Forward` is given."""
    initial_logprobs_BT: Tensor

    @classmethod
    @torch.no_grad()
    def frozen(
        cls, prompt_ids: Sequence[Sequence[int]], completion_ids: Sequence[Sequence[int]], pad: int, forward: Forward
    ) -> Self:
        """Make a probe of completions that the policy behind `forward` has just sampled."""
        prompts, completions = padded(prompt_ids, pad, "left"), padded(completion_ids, pad, "right")
        names = ("prompt_ids", "prompt_mask", "completion_ids", "completion_mask")
        rows: dict[str, Tensor] = dict(zip(names, (*prompts, *completions), strict=True))
        return cls(rows, forward(rows)[0].cpu())

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read what `save` wrote; no code in it is run."""
        return cls(**torch.load(path, weights_only=True))

    def save(self, path: Path) -> None:
        """Write all of it to a file."""
        torch.save(vars(self), path)

    @torch.no_grad()
    def measure(self, forward: Forward) -> dict[str, float]:
        """Each of `METRICS`, a mean over all tokens of the set."""
        mask_BT = self.rows["completion_mask"].bool()
        logprobs_BT, entropy_BT = (values_BT.cpu().double() for values_BT in forward(self.rows))
        log_ratios = (logprobs_BT - self.initial_logprobs_BT)[mask_BT]
        values = (entropy_BT[mask_BT], -log_ratios, log_ratios.expm1() - log_ratios)
        return {name: value.mean().item() for name, value in zip(self.METRICS, values, strict=True)}
