from typing import Any

import pytest
import torch

from trainers.losses import (
    AggregationParams,
    CEGPPOParams,
    DAPOParams,
    ERCMask,
    ERCPenalty,
    GPPOParams,
    TermsParams,
    TokenBatch,
    Totals,
    objective,
)

every_host = pytest.mark.parametrize("kind", [DAPOParams, GPPOParams, CEGPPOParams])
ADVANTAGES_BT = torch.tensor([[1.0, -1.0, 1.0, -1.0, 1.0, -1.0, 1.0]])


def batch(entropy_BT: torch.Tensor, old_entropy_BT: torch.Tensor) -> TokenBatch:
    zeros_BT = torch.zeros_like(entropy_BT)
    return TokenBatch(
        zeros_BT.clone().requires_grad_(),
        zeros_BT,
        ADVANTAGES_BT[:, : entropy_BT.shape[1]].expand_as(zeros_BT),
        torch.ones_like(zeros_BT),
        entropy_BT=entropy_BT.requires_grad_(),
        old_entropy_BT=old_entropy_BT,
    )


@every_host
def test_a_dropped_token_keeps_its_value_and_its_place_in_the_mean(kind: Any) -> None:
    """Entropies from 1: bounds themselves are dropped, whatever the advantage's sign; from 0 to 0 nothing changed."""
    offset = 1e-8
    entropy_BT = torch.tensor([[0.5, 2.0, 1.0 - offset, 1.5 - offset, 0.75 - offset, 1.49, 0.0]], dtype=torch.float64)
    old_entropy_BT = torch.tensor([[1.0 - offset] * 6 + [0.0]], dtype=torch.float64)
    tokens = batch(entropy_BT, old_entropy_BT)
    params = kind(erc=ERCMask(low=0.75, high=1.5))
    result = objective(tokens, params, AggregationParams(), TermsParams())
    plain = objective(tokens, kind(), AggregationParams(), TermsParams())
    assert torch.equal(result.output.loss_BT, plain.output.loss_BT)
    (grad_BT,) = torch.autograd.grad(result.loss, tokens.logprobs_BT)
    assert (grad_BT * 7).flatten().tolist() == pytest.approx([0, 0, -1, 0, 0, 1, -1])
    assert result.output.selected_BT is not None
    assert result.output.selected_BT.tolist() == [[True, True, False, True, True, False, False]]
    assert result.output.regions.keys() == plain.output.regions.keys()


@pytest.mark.parametrize(("entropy", "distance"), [(2.0, 0.0), (2.2, 0.0), (3.0, 0.4), (1.0, -0.4)])
@every_host
def test_the_penalty_is_the_squared_distance_of_the_mean_ratio(kind: Any, entropy: float, distance: float) -> None:
    """Old entropies 1 and 3, mean 2; new ones 0 and twice `entropy`, mean `entropy`."""
    tokens = batch(
        torch.tensor([[0.0, 2 * entropy]], dtype=torch.float64), torch.tensor([[1.0, 3.0]], dtype=torch.float64)
    )
    result = objective(tokens, kind(erc=ERCPenalty()), AggregationParams(), TermsParams())
    assert result.penalty is not None
    assert tokens.entropy_BT is not None
    assert result.penalty.item() == pytest.approx(0.1 * distance**2, abs=1e-9)
    assert result.loss.item() == pytest.approx((result.policy_loss + result.penalty).item())
    (grad_BT,) = torch.autograd.grad(result.loss, tokens.entropy_BT)
    slope = 0.1 * 2 * distance / (2 * 2)  # d mean / d entropy is 1/2, the old mean 2
    assert grad_BT.flatten().tolist() == pytest.approx([slope, slope], abs=1e-9)


def test_in_parts_the_penalty_is_the_mean_of_theirs_weighted_by_tokens() -> None:
    params, aggregation, terms = DAPOParams(erc=ERCPenalty()), AggregationParams(), TermsParams()
    one = batch(torch.full((1, 3), 2.1), torch.ones(1, 3))
    two = batch(torch.full((1, 1), 0.4), torch.ones(1, 1))
    totals = Totals(4, 2, 4, 2, 4, 2, 3)
    penalties = [objective(part, params, aggregation, terms, totals=totals).penalty for part in (one, two)]
    assert [penalty.item() for penalty in penalties if penalty is not None] == pytest.approx(
        [0.1 * 3 / 4, 0.1 * 0.25 / 4], rel=1e-6
    )


def test_entropies_that_are_missing_are_asked_for() -> None:
    values_BT = torch.zeros(1, 2)
    tokens = TokenBatch(values_BT, values_BT, values_BT, values_BT, entropy_BT=values_BT)
    with pytest.raises(ValueError, match=r"erc reads TokenBatch\.old_entropy_BT, which was not given"):
        objective(tokens, DAPOParams(erc=ERCMask()), AggregationParams(), TermsParams())
