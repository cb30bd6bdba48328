"""Every loss takes the options that steer entropy by advantages."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from tests.contract.losses import label
from tests.contract.test_losses_objective import per_token, rows_of, totals_of, whole_batch
from tests.contract.test_losses_robust import ALL_PARAMS, ALL_TERMS
from trainers.losses import (
    AggregationParams,
    EntropyAdvantageParams,
    Objective,
    TokenBatch,
    entropy_advantages,
    objective,
)

every_loss = pytest.mark.parametrize("params", ALL_PARAMS, ids=label)
WEIGHTS = [0.0, 0.3]


def seeded(batch: TokenBatch) -> TokenBatch:
    """Return the batch with a generator, so that clip_cov draws the same tokens each time."""
    return replace(batch, generator=torch.Generator().manual_seed(1))


def of(batch: TokenBatch, params: Any, **options: Any) -> Objective:
    return objective(seeded(batch), params, AggregationParams(), ALL_TERMS, **options)


def gradient(batch: TokenBatch, made: Objective) -> torch.Tensor:
    return torch.autograd.grad(made.output.loss_BT.sum(), batch.logprobs_BT, retain_graph=True)[0]


@every_loss
@pytest.mark.parametrize("weight", WEIGHTS)
def test_the_positive_weight_scales_positive_tokens_and_nothing_else(params: Any, weight: float) -> None:
    batch = whole_batch(2)
    plain, weighed = of(batch, params), of(batch, params, positive_weight=weight)
    factor_BT = torch.ones_like(batch.advantages_BT).masked_fill(batch.advantages_BT > 0, weight)
    torch.testing.assert_close(weighed.output.loss_BT, plain.output.loss_BT * factor_BT, rtol=1e-14, atol=0)
    torch.testing.assert_close(gradient(batch, weighed), gradient(batch, plain) * factor_BT, rtol=1e-14, atol=0)
    assert (weighed.entropy, weighed.positive_nll, weighed.penalty) == (
        plain.entropy,
        plain.positive_nll,
        plain.penalty,
    )
    for name, mask_BT in plain.output.regions.items():
        assert torch.equal(weighed.output.regions[name], mask_BT)


@every_loss
def test_a_positive_weight_of_one_changes_no_bit(params: Any) -> None:
    batch = whole_batch(3)
    plain, same = of(batch, params), of(batch, params, positive_weight=1.0)
    assert torch.equal(plain.loss, same.loss)
    assert torch.equal(gradient(batch, plain), gradient(batch, same))


@every_loss
def test_without_their_weight_positive_tokens_pass_no_gradient_whatever_their_ratio(params: Any) -> None:
    tokens = [(delta, advantage) for delta in (-300.0, -0.5, 0.0, 0.5, 300.0) for advantage in (-2.0, 2.0)]
    delta_BT, advantages_BT = torch.tensor(tokens, dtype=torch.float64).unsqueeze(1).unbind(-1)
    ones_BT = torch.ones_like(delta_BT)
    batch = TokenBatch(
        delta_BT.clone().requires_grad_(),
        ones_BT * 0,
        advantages_BT,
        ones_BT,
        entropy_BT=ones_BT,
        old_entropy_BT=ones_BT,
        selected_BT=ones_BT * 0,
        correct_B=ones_BT[:, 0],
        reference_logprobs_BT=ones_BT,
    )
    made = of(batch, params, positive_weight=0.0)
    gradient_BT = gradient(batch, made)
    assert made.output.loss_BT.isfinite().all()
    assert gradient_BT.isfinite().all()
    assert not gradient_BT[batch.advantages_BT > 0].any()


@per_token
@pytest.mark.parametrize("denominator", ["window", "active"])
def test_parts_of_a_weighed_and_raised_update_add_up_to_the_whole(params: Any, denominator: Any) -> None:
    batch = whole_batch(5)
    assert batch.entropy_BT is not None
    raised_BT = entropy_advantages(batch.advantages_BT, batch.entropy_BT, EntropyAdvantageParams())
    batch, aggregation = replace(batch, advantages_BT=raised_BT), AggregationParams(denominator=denominator)
    totals = totals_of(batch, denominator)
    whole = objective(batch, params, aggregation, ALL_TERMS, positive_weight=0.4, totals=totals)
    pieces = [
        objective(rows_of(batch, rows), params, aggregation, ALL_TERMS, positive_weight=0.4, totals=totals)
        for rows in (slice(2), slice(2, 6))
    ]
    torch.testing.assert_close(sum(piece.loss for piece in pieces), whole.loss)


@every_loss
def test_advantages_raised_by_entropy_pass_no_gradient_through_it(params: Any) -> None:
    batch = whole_batch(4)
    assert batch.entropy_BT is not None
    raised_BT = entropy_advantages(batch.advantages_BT, batch.entropy_BT, EntropyAdvantageParams(alpha=5))
    made = objective(seeded(replace(batch, advantages_BT=raised_BT)), params, AggregationParams(), ALL_TERMS)
    plain = of(batch, params)
    assert torch.equal(raised_BT.sign(), batch.advantages_BT.sign())
    for name, mask_BT in plain.output.regions.items():
        if params.name != "bapo":  # whose bounds follow the advantages
            assert torch.equal(made.output.regions[name], mask_BT)
    grads = [torch.autograd.grad(each.loss, batch.entropy_BT, retain_graph=True)[0] for each in (made, plain)]
    assert torch.equal(*grads), "only the entropy bonus and the penalty differentiate the entropy"
