"""Whole runs in float64. TRL's fused head and Qwen2's norm compute in float32 whatever comes in; here they do not.

That the head put in its place is TRL's to float32's precision is tested where it is used.
"""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from transformers.models.qwen2.modeling_qwen2 import Qwen2RMSNorm


class FullHead:
    """Log-probabilities of N targets and entropies over the whole vocabulary V at once; called as TRL's fused head."""

    @staticmethod
    def apply(
        hidden_NH: Tensor, weight_VH: Tensor, bias_V: Tensor | None, targets_N: Tensor, temperature: float, *_: Any
    ) -> tuple[Tensor, Tensor, None, None, None]:
        logits_NV = torch.nn.functional.linear(hidden_NH, weight_VH, bias_V)
        logprobs_NV = torch.log_softmax(logits_NV / temperature, dim=-1)
        logprobs_N = logprobs_NV.gather(-1, targets_N.unsqueeze(-1)).squeeze(-1)
        return logprobs_N, -(logprobs_NV.exp() * logprobs_NV).sum(-1), None, None, None


def _norm(self: Any, hidden: Tensor) -> Tensor:
    return torch.nn.functional.rms_norm(hidden, self.weight.shape, self.weight, self.variance_epsilon)


@contextmanager
def in_float64() -> Generator[None]:
    """Let models with float64 weights compute in float64 throughout."""
    with patch("trl.trainer.utils._ChunkedLogProbFunction", FullHead), patch.object(Qwen2RMSNorm, "forward", _norm):
        yield
