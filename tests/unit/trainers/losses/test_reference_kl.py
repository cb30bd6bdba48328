"""The estimators of the divergence from the initial model: values, gradients, and what they are on average."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from trainers.config import TrainingConfig
from trainers.losses import (
    AggregationParams,
    GRPOParams,
    ReferenceKLParams,
    TermsParams,
    TokenBatch,
    objective,
    reference_kl,
)

ESTIMATORS: list[Any] = ["k1", "k2", "k3", "k3+"]
every_estimator = pytest.mark.parametrize("estimator", ESTIMATORS)


def values_and_gradients(estimator: Any, logprobs: list[float], reference: list[float]) -> list[tuple[float, float]]:
    logprobs_BT = torch.tensor([logprobs], dtype=torch.float64, requires_grad=True)
    reference_BT = torch.tensor([reference], dtype=torch.float64)
    values_BT = reference_kl(logprobs_BT, reference_BT, ReferenceKLParams(coefficient=1, estimator=estimator))
    (gradient_BT,) = torch.autograd.grad(values_BT.sum(), logprobs_BT)
    return list(zip(values_BT[0].tolist(), gradient_BT[0].tolist(), strict=True))


def plain(estimator: str, logprob: float, reference: float) -> tuple[float, float]:
    """Value and derivative by the log-probability, from the definitions with the ratio of probabilities."""
    ratio = math.exp(reference) / math.exp(logprob)
    k3 = ratio - 1 - math.log(ratio)
    half_square = 0.5 * math.log(ratio) ** 2
    return {
        "k1": (-math.log(ratio), 1.0),
        "k2": (half_square, -math.log(ratio)),
        "k3": (k3, 1 - ratio),
        "k3+": (k3, -math.log(ratio)),
    }[estimator]


@every_estimator
@given(tokens=st.lists(st.tuples(st.floats(-9, 0), st.floats(-9, 0)), min_size=1, max_size=5))
def test_each_token_has_the_value_and_gradient_of_its_definition(
    estimator: str, tokens: list[tuple[float, float]]
) -> None:
    found = values_and_gradients(estimator, *map(list, zip(*tokens, strict=True)))
    for pair, token in zip(found, tokens, strict=True):
        assert pair == pytest.approx(plain(estimator, *token), rel=1e-9, abs=1e-9)


def exact(logits_V: Tensor, reference_V: Tensor, estimator: Any) -> tuple[Tensor, Tensor]:
    """Mean value and mean gradient by the logits of an estimator over all tokens of a vocabulary, exactly."""
    logits_V = logits_V.clone().requires_grad_()
    logprobs_V = logits_V.log_softmax(0)
    values_V = reference_kl(logprobs_V, reference_V.log_softmax(0), ReferenceKLParams(estimator=estimator))
    mean = (logprobs_V.detach().exp() * values_V).sum()
    return mean.detach(), torch.autograd.grad(mean, logits_V)[0]


def divergence(logits_V: Tensor, reference_V: Tensor, *, forward: bool) -> tuple[Tensor, Tensor]:
    """KL(policy || reference), or where `forward` KL(reference || policy), with its gradient by the policy's logits."""
    logits_V = logits_V.clone().requires_grad_()
    policy_V, other_V = logits_V.log_softmax(0), reference_V.log_softmax(0)
    first_V, second_V = (other_V, policy_V) if forward else (policy_V, other_V)
    value = (first_V.exp() * (first_V - second_V)).sum()
    return value.detach(), torch.autograd.grad(value, logits_V)[0]


def test_on_its_own_samples_each_estimator_has_the_gradient_that_it_says() -> None:
    numbers = torch.Generator().manual_seed(0)
    logits_V, reference_V = (torch.randn(7, generator=numbers, dtype=torch.float64) for _ in range(2))
    reverse, reverse_gradient_V = divergence(logits_V, reference_V, forward=False)
    forward_gradient_V = divergence(logits_V, reference_V, forward=True)[1]
    for estimator in ("k1", "k3", "k3+"):
        torch.testing.assert_close(exact(logits_V, reference_V, estimator)[0], reverse)
    gradients = {estimator: exact(logits_V, reference_V, estimator)[1] for estimator in ESTIMATORS}
    torch.testing.assert_close(gradients["k1"], torch.zeros_like(logits_V))
    torch.testing.assert_close(gradients["k2"], reverse_gradient_V)
    torch.testing.assert_close(gradients["k3"], forward_gradient_V)
    torch.testing.assert_close(gradients["k3+"], reverse_gradient_V)
    assert not torch.allclose(reverse_gradient_V, forward_gradient_V)


@every_estimator
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_any_distance_is_finite_and_k3_is_cut_at_20_nats(estimator: Any, dtype: torch.dtype) -> None:
    logprobs_BT = torch.tensor([[-1e4, -300.0, -21.0, -19.0, 0.0]], dtype=dtype, requires_grad=True)
    values_BT = reference_kl(logprobs_BT, torch.zeros_like(logprobs_BT), ReferenceKLParams(estimator=estimator))
    (gradient_BT,) = torch.autograd.grad(values_BT.sum(), logprobs_BT)
    assert values_BT.isfinite().all()
    assert gradient_BT.isfinite().all()
    cut = [place for place, gradient in enumerate(gradient_BT[0, :4].tolist()) if gradient == 0]
    assert cut == ([0, 1, 2] if estimator == "k3" else [])


LOGPROBS_BT = torch.tensor([[-1.0, -2.0, math.nan], [-3.0, math.nan, math.nan]])
REFERENCE_BT = torch.tensor([[-1.5, -2.0, math.inf], [-2.0, 9.0, 9.0]])
MASK_BT = torch.tensor([[1, 1, 0], [1, 0, 0]])


def made(mode: Any, **kl: Any) -> Any:
    logprobs_BT = LOGPROBS_BT.nan_to_num(0.0).requires_grad_()
    zeros_BT = torch.zeros_like(LOGPROBS_BT)
    batch = TokenBatch(logprobs_BT, logprobs_BT, zeros_BT, MASK_BT, reference_logprobs_BT=REFERENCE_BT)
    terms = TermsParams(kl=ReferenceKLParams.model_validate(kl))
    return objective(batch, GRPOParams(), AggregationParams(mode=mode), terms), logprobs_BT


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("token_mean", (0.5 + 0 - 1) / 3),
        ("seq_mean_token_mean", (0.25 - 1) / 2),
        ("seq_mean_token_sum", (0.5 - 1) / 2),
        ("seq_mean_token_sum_norm", (0.5 - 1) / 3),
    ],
)
def test_the_term_is_aggregated_like_the_loss_and_added(mode: str, expected: float) -> None:
    result, logprobs_BT = made(mode, coefficient=0.2, estimator="k1")
    assert result.kl.item() == pytest.approx(expected)
    assert result.loss.item() == pytest.approx(0.2 * expected)
    assert not result.kl.requires_grad
    (gradient_BT,) = torch.autograd.grad(result.loss, logprobs_BT)
    assert ((gradient_BT > 0) == MASK_BT.bool()).all()


def test_off_is_not_computed_and_needs_no_reference() -> None:
    result, _ = made("token_mean", coefficient=0)
    assert (result.kl, result.loss.item()) == (None, 0)
    zeros_BT = torch.zeros(1, 1)
    terms = TermsParams(kl=ReferenceKLParams(coefficient=1))
    with pytest.raises(ValueError, match=r"terms.kl reads TokenBatch.reference_logprobs_BT"):
        objective(TokenBatch(*[zeros_BT] * 4), GRPOParams(), AggregationParams(), terms)


def test_only_what_differs_from_the_default_is_written() -> None:
    assert "kl" not in TrainingConfig().model_dump()["terms"]
    on = TrainingConfig.model_validate({"terms": {"kl": {"coefficient": 0.1}}})
    assert on.model_dump()["terms"]["kl"] == {"coefficient": 0.1, "estimator": "k3"}
    assert TrainingConfig.model_validate(on.model_dump(mode="json")) == on
