"""Sums and counts over one optimizer step, reduced once over all processes and then divided.

Device batches hold unequal numbers of tokens, so the mean of their means would not be the mean over tokens.
Shapes: B sequences, T completion tokens.
"""

from typing import Any

import torch
from torch import Tensor

from trainers.losses import REGIONS, ClipParams, LossOutput, TokenBatch


class StepStats:
    """Collects the device batches of one optimizer step."""

    def __init__(self) -> None:
        self._sums: dict[str, Tensor] = {}
        self._largest_ratio: Tensor | None = None

    @torch.no_grad()
    def add(self, batch: TokenBatch, output: LossOutput, entropy_BT: Tensor, params: ClipParams) -> None:
        """Add a device batch. Entropies (B, T) are in nats; their values at padding do not matter."""
        mask_BT, log_ratio_BT = batch.mask_BT, batch.logprobs_BT - batch.old_logprobs_BT
        ratio_BT = log_ratio_BT.exp()
        entropy_BT = entropy_BT.masked_fill(~mask_BT, 0.0)
        self._sum("tokens", mask_BT)
        self._sum("entropy", entropy_BT)
        self._sum("ppo_kl", -log_ratio_BT)
        self._sum("ratio", ratio_BT.masked_fill(~mask_BT, 0.0))
        self._sum("clip_fraction/low", (ratio_BT < params.low) & mask_BT)
        self._sum("clip_fraction/high", (ratio_BT > params.high) & mask_BT)
        for region in REGIONS:
            inside_BT = output.regions[region]
            self._sum(f"share/{region}", inside_BT)
            self._sum(f"entropy/{region}", entropy_BT.where(inside_BT, 0.0))
        largest = ratio_BT.masked_fill(~mask_BT, 0.0).max()
        self._largest_ratio = largest if self._largest_ratio is None else self._largest_ratio.maximum(largest)

    def reduced(self, accelerator: Any) -> dict[str, float | None]:
        """The metrics of the step over all processes of `accelerator`; empties the collection."""
        assert self._largest_ratio is not None, "no device batch was added"
        totals = accelerator.reduce(torch.stack(list(self._sums.values())), reduction="sum").tolist()
        largest: float = accelerator.gather(self._largest_ratio.reshape(1)).max().item()
        sums: dict[str, float] = dict(zip(self._sums, totals, strict=True))
        self.__init__()
        tokens = sums.pop("tokens")
        metrics: dict[str, float | None] = {"tokens/step": tokens, "ratio/max": largest}
        for name, total in sums.items():
            region = name.removeprefix("entropy/")
            count = sums[f"share/{region}"] if region in REGIONS else tokens
            metrics["ratio/mean" if name == "ratio" else name] = total / count if count else None
        return metrics

    def _sum(self, name: str, values_BT: Tensor) -> None:
        total = values_BT.sum(dtype=torch.float64)
        self._sums[name] = self._sums[name] + total if name in self._sums else total
