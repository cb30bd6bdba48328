"""What bfloat16 does to a loss, and what the fused head saves, on this machine's device.

python bench/gpu_precision.py [--size qwen2-1.5b] [--tokens 4096] [--sequences 2]. A random model of a real size
reads random tokens. Printed as a Markdown table: the loss of CE-GPPO in float32 and under bfloat16 autocast,
log-probabilities of the fused head against those from materialised logits, and what a forward and backward pass takes.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from random_model import SIZES, save_random_model
from torch import Tensor
from transformers import AutoModelForCausalLM
from trl.trainer.utils import add_fused_lm_head

from trainers.losses import AggregationParams, CEGPPOParams, TermsParams, TokenBatch, objective


class Measured(NamedTuple):
    """One forward and backward pass."""

    logprobs_BT: Tensor
    loss: float
    gradient_norm: float
    peak_mib: float
    seconds: float


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=SIZES, default="qwen2-1.5b")
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--sequences", type=int, default=2)
    options = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    with tempfile.TemporaryDirectory() as folder:
        save_random_model(SIZES[options.size], Path(folder))
        model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    model.to(device)
    model.activation_checkpointing_enable({"use_reentrant": False})
    model.train()
    add_fused_lm_head(model, outputs=("log_probs", "entropy"))
    torch.manual_seed(0)
    ids_BT = torch.randint(SIZES[options.size].vocabulary - 16, (options.sequences, options.tokens), device=device)
    old_BT = _off_policy(fused(model, ids_BT).detach())
    _measured(model, ids_BT, old_BT, fused, bfloat16=True)  # compiles kernels
    runs = {
        "float32, logits": _measured(model, ids_BT, old_BT, materialised, bfloat16=False),
        "float32, fused head": _measured(model, ids_BT, old_BT, fused, bfloat16=False),
        "bfloat16 autocast, fused head": _measured(model, ids_BT, old_BT, fused, bfloat16=True),
    }
    name = torch.cuda.get_device_name() if device.type == "cuda" else "CPU"
    print(f"{options.size}, {options.sequences} x {options.tokens} tokens, {name}, torch {torch.__version__}\n")
    print("| | loss | gradient norm | largest log-prob difference, nats | mean | peak MiB | seconds |")
    print("|---|---|---|---|---|---|---|")
    reference = runs["float32, fused head"].logprobs_BT
    for title, run in runs.items():
        gap = (run.logprobs_BT - reference).abs()
        figures = f"{run.loss:.6f} | {run.gradient_norm:.4g} | {gap.max():.2g} | {gap.mean():.2g}"
        print(f"| {title} | {figures} | {run.peak_mib:.0f} | {run.seconds:.2f} |")
    return 0


def fused(model: Any, ids_BT: Tensor) -> Tensor:
    """Log-probabilities of all tokens but the first, as the trainer computes them."""
    return model(input_ids=ids_BT, labels=ids_BT, fused_lm_head=True, use_cache=False).log_probs


def materialised(model: Any, ids_BT: Tensor) -> Tensor:
    """The same from the logits of the whole vocabulary."""
    logits = model(input_ids=ids_BT, use_cache=False).logits[:, :-1].float()
    return torch.log_softmax(logits, -1).gather(-1, ids_BT[:, 1:, None]).squeeze(-1)


def _off_policy(logprobs_BT: Tensor) -> Tensor:
    """Old log-probabilities that put a good part of the ratios outside the clip interval."""
    return logprobs_BT + 0.3 * torch.randn(logprobs_BT.shape, generator=torch.Generator().manual_seed(1)).to(
        logprobs_BT.device
    )


def _measured(
    model: Any, ids_BT: Tensor, old_BT: Tensor, logprobs: Callable[[Any, Tensor], Tensor], *, bfloat16: bool
) -> Measured:
    model.zero_grad(set_to_none=True)
    on_gpu, started = ids_BT.is_cuda, time.perf_counter()
    if on_gpu:
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
    with torch.autocast(ids_BT.device.type, torch.bfloat16, enabled=bfloat16):
        logprobs_BT = logprobs(model, ids_BT).float()
    advantages_BT = torch.ones_like(old_BT)
    advantages_BT[::2] = -1
    batch = TokenBatch(logprobs_BT, old_BT, advantages_BT, torch.ones_like(old_BT))
    loss = objective(batch, CEGPPOParams(), AggregationParams(), TermsParams()).loss
    loss.backward()
    norm = torch.nn.utils.get_total_norm([p.grad for p in model.parameters() if p.grad is not None])
    if on_gpu:
        torch.cuda.synchronize()
    peak = torch.cuda.max_memory_allocated() / 2**20 if on_gpu else float("nan")
    return Measured(logprobs_BT.detach(), loss.item(), norm.item(), peak, time.perf_counter() - started)


if __name__ == "__main__":
    sys.exit(main())
