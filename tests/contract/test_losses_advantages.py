"""Every loss takes weights on its tokens: on those with A > 0, and for what another engine sampled."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from tests.contract.losses import ALL_PARAMS, ALL_TERMS, label
from tests.contract.test_losses_objective import whole_batch
from trainers.losses import AggregationParams, Objective, TokenBatch, objective

every_loss = pytest.mark.parametrize("params", ALL_PARAMS, ids=label)


def seeded(batch: TokenBatch) -> TokenBatch:
    """Return the batch with a generator, so that clip_cov draws the same tokens each time."""
    return replace(batch, generator=torch.Generator().manual_seed(1))


def of(batch: TokenBatch, params: Any, **options: Any) -> Objective:
    return objective(seeded(batch), params, AggregationParams(), ALL_TERMS, **options)


def gradient(batch: TokenBatch, made: Objective) -> torch.Tensor:
    return torch.autograd.grad(made.output.loss_BT.sum(), batch.logprobs_BT, retain_graph=True)[0]


@every_loss
@pytest.mark.parametrize("positive", [0.0, 0.3, 1.0, "of each token"])
def test_a_weight_scales_the_loss_of_its_tokens_and_nothing_else(params: Any, positive: Any) -> None:
    """The weight on tokens with A > 0, or one on each token for another engine's samples, which has no gradient."""
    batch = whole_batch(2)
    plain = of(batch, params)
    if positive == "of each token":
        factor_BT = (torch.arange(30, dtype=torch.float64).view(6, 5) / 20).requires_grad_()
        weighed = of(replace(batch, sampling_weight_BT=factor_BT), params)
        assert torch.autograd.grad(weighed.loss, factor_BT, allow_unused=True, retain_graph=True) == (None,)
    else:
        factor_BT = torch.ones_like(batch.advantages_BT).masked_fill(batch.advantages_BT > 0, positive)
        weighed = of(batch, params, positive_weight=positive)
    mask_BT = batch.mask_BT
    expected = (plain.output.loss_BT * factor_BT)[mask_BT], (gradient(batch, plain) * factor_BT)[mask_BT]
    exact = {"rtol": 0 if positive == 1 else 1e-14, "atol": 0}
    torch.testing.assert_close(weighed.output.loss_BT[mask_BT], expected[0], **exact)
    torch.testing.assert_close(gradient(batch, weighed)[mask_BT], expected[1], **exact)
    for part in ("entropy", "positive_nll", "penalty", "kl"):
        assert getattr(weighed, part) == getattr(plain, part), part
    for name, region_BT in plain.output.regions.items():
        assert torch.equal(weighed.output.regions[name], region_BT)
