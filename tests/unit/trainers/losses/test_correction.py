"""Weights for what another engine sampled: against a formula written out, and entering the objective once."""

from dataclasses import replace
from math import exp, nan

import pytest
import torch

from tests.contract.losses import label
from tests.contract.test_losses_robust import ALL_PARAMS
from trainers.losses import (
    AggregationParams,
    EntropyBonusParams,
    LossConfig,
    TermsParams,
    TokenBatch,
    objective,
    truncated_weights,
)


def batch_of(seed: int = 0) -> TokenBatch:
    draw = torch.Generator().manual_seed(seed)

    def normal() -> torch.Tensor:
        return torch.randn(4, 6, generator=draw, dtype=torch.float64)

    logprobs_BT = normal() - 2
    return TokenBatch(
        logprobs_BT.requires_grad_(),
        logprobs_BT.detach() + 0.3 * normal(),
        normal(),
        torch.rand(4, 6, generator=draw) < 0.8,
        entropy_BT=normal().abs().requires_grad_(),
        old_entropy_BT=normal().abs(),
        correct_B=torch.tensor([True, False, True, False]),
        active_B=torch.tensor([True, True, True, False]),
        generator=torch.Generator().manual_seed(1),
    )


def test_a_weight_is_the_ratio_up_to_the_cap() -> None:
    trainer = torch.tensor([[-1.0, -2.0, -3.0, -1.0, -50.0, -0.5]])
    engine = torch.tensor([[-1.5, -2.5, -2.0, -9.0, -0.1, nan]])
    weights = truncated_weights(trainer, engine, 2.0)
    expected = [min(exp(t - e), 2.0) for t, e in zip(trainer[0].tolist(), engine[0].tolist(), strict=True)]
    torch.testing.assert_close(weights, torch.tensor([[*expected[:-1], 1.0]]))


@pytest.mark.parametrize("params", ALL_PARAMS, ids=label)
def test_each_tokens_policy_loss_is_weighed_once_and_nothing_else(params: LossConfig) -> None:
    batch, terms = batch_of(), TermsParams(entropy_bonus=EntropyBonusParams(coefficient=0.1), positive_nll=0.2)
    weights_BT = torch.rand(4, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(2)) * 2
    weights_BT.requires_grad_()
    weighed = replace(batch, sampling_weight_BT=weights_BT, generator=torch.Generator().manual_seed(1))
    plain = objective(batch, params, AggregationParams(mode=params.fixed_aggregation or "token_mean"), terms)
    result = objective(weighed, params, AggregationParams(mode=params.fixed_aggregation or "token_mean"), terms)
    torch.testing.assert_close(
        result.output.loss_BT[batch.mask_BT], (plain.output.loss_BT * weights_BT)[batch.mask_BT], rtol=1e-12, atol=0
    )
    assert result.entropy == plain.entropy
    assert result.positive_nll == plain.positive_nll
    assert result.penalty == plain.penalty
    (gradient,) = torch.autograd.grad(result.output.loss_BT.sum(), weighed.logprobs_BT, retain_graph=True)
    (unweighed,) = torch.autograd.grad(plain.output.loss_BT.sum(), batch.logprobs_BT, retain_graph=True)
    torch.testing.assert_close(gradient, (unweighed * weights_BT).masked_fill(~batch.mask_BT, 0), rtol=1e-12, atol=0)
    (no_gradient,) = torch.autograd.grad(result.loss, weights_BT, allow_unused=True)
    assert no_gradient is None


def test_a_weight_of_one_changes_no_bit() -> None:
    batch = batch_of()
    ones = replace(batch, sampling_weight_BT=torch.ones(4, 6, dtype=torch.float64))
    plain, same = (objective(b, ALL_PARAMS[0], AggregationParams(), TermsParams()) for b in (batch, ones))
    assert torch.equal(plain.loss, same.loss)
