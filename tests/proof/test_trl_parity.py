"""Our dapo, cispo and gspo are TRL's: loss and gradient, in float64, with and without accumulation."""

from pathlib import Path

import pytest
import torch
from trl.trainer.utils import _ChunkedLogProbFunction

from tests.proof.float64 import FullHead
from tests.proof.trl_comparison import PARITIES, compared

TOLERANCE = 1e-12
UPDATES = 10


@pytest.mark.parametrize(
    "accumulated", [pytest.param(1, marks=pytest.mark.long), 2, pytest.param(4, marks=pytest.mark.long)]
)
@pytest.mark.parametrize("name", PARITIES)
def test_loss_and_gradient_are_trls(name: str, accumulated: int, tmp_path: Path, cache: Path) -> None:
    trainer, config = compared(name, tmp_path, cache, device_batch=16 // accumulated, steps=UPDATES)
    assert config.accumulation_steps == accumulated
    assert len(trainer.loss_gaps) == UPDATES * accumulated
    assert len(trainer.gradient_gaps) == UPDATES
    print(f"{name} x {accumulated}: losses {max(trainer.loss_gaps):.1e}, gradients {max(trainer.gradient_gaps):.1e}")
    assert sum(largest > 1e-3 for largest in trainer.largest) >= UPDATES - 3, "too few updates had a gradient"
    assert max(trainer.loss_gaps) < TOLERANCE
    assert max(trainer.gradient_gaps) < TOLERANCE * max(trainer.largest)


def test_the_head_used_in_float64_is_trls_own() -> None:
    torch.manual_seed(0)
    hidden_NH, weight_VH = torch.randn(7, 5, requires_grad=True), torch.randn(11, 5, requires_grad=True)
    targets_N = torch.randint(11, (7,))
    results = []
    for head in (FullHead, _ChunkedLogProbFunction):
        logprobs_N, entropy_N, *_ = head.apply(hidden_NH, weight_VH, None, targets_N, 0.7, 4, None, 1.0, ("entropy",))
        gradients = torch.autograd.grad((logprobs_N * 0.3 + entropy_N).sum(), [hidden_NH, weight_VH])
        results.append([logprobs_N, entropy_N, *gradients])
    for full, fused in zip(*results, strict=True):
        torch.testing.assert_close(full, fused, rtol=1e-5, atol=1e-5)
