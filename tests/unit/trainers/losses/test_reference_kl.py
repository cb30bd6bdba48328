"""The estimators of the divergence from the initial model: values, gradients, and how the term enters the loss."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

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
    results = values_and_gradients(estimator, *map(list, zip(*tokens, strict=True)))
    for pair, token in zip(results, tokens, strict=True):
        assert pair == pytest.approx(plain(estimator, *token), rel=1e-9, abs=1e-9)


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
