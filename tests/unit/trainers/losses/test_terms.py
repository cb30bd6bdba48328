import pytest
import torch

from trainers.losses import (
    AggregationParams,
    EntropyBonusParams,
    GRPOParams,
    TermsParams,
    TokenBatch,
    Totals,
    next_coefficient,
    objective,
)

LOGPROBS_BT = torch.tensor([[-1.0, -2.0, 0.0], [-3.0, 0.0, 0.0]])
MASK_BT = torch.tensor([[1, 1, 0], [1, 0, 0]])


def batch(correct: list[bool] | None = None) -> TokenBatch:
    return TokenBatch(
        LOGPROBS_BT.clone().requires_grad_(),
        LOGPROBS_BT,
        torch.zeros(2, 3),
        MASK_BT,
        entropy_BT=torch.tensor([[0.5, 0.25, 7.0], [0.75, 7.0, 7.0]], requires_grad=True),
        correct_B=None if correct is None else torch.tensor(correct),
    )


def test_an_update_without_a_correct_row_adds_nothing_also_in_parts() -> None:
    zero = torch.tensor(0.0)
    totals = Totals(3, 2, 0, 0, zero, zero, 3)
    for mode in ("token_mean", "seq_mean_token_mean"):
        for denominator in ("window", "active"):
            tokens = TokenBatch(**{**vars(batch([False, False])), "active_B": torch.zeros(2)})
            result = objective(
                tokens,
                GRPOParams(),
                AggregationParams(mode=mode, denominator=denominator),
                TermsParams(positive_nll=0.1),
                totals=totals,
            )
            assert result.loss.item() == 0
            assert not torch.autograd.grad(result.loss, tokens.logprobs_BT)[0].any()


def test_the_coefficient_of_now_takes_the_place_of_the_configured_one() -> None:
    tokens, bonus = batch(), TermsParams(entropy_bonus=EntropyBonusParams(coefficient=0.3))
    adaptive = objective(tokens, GRPOParams(), AggregationParams(), bonus, entropy_coefficient=0.6)
    assert adaptive.loss.item() == pytest.approx(-0.3)
    off = objective(tokens, GRPOParams(), AggregationParams(), bonus, entropy_coefficient=0.0)
    assert (off.entropy, off.loss.item()) == (None, 0)


@pytest.mark.parametrize(
    ("coefficient", "entropy", "expected"),
    [(0.1, 0.4, 0.15), (0.1, 0.5, 0.15), (0.1, 0.6, 0.05), (0.02, 0.6, 0.0), (0.98, 0.1, 1.0), (0.0, 9.0, 0.0)],
)
def test_the_adaptive_coefficient_follows_its_target(coefficient: float, entropy: float, expected: float) -> None:
    params = EntropyBonusParams(coefficient=0.1, target=0.5, delta=0.05)
    assert next_coefficient(coefficient, entropy, params) == pytest.approx(expected)
    assert next_coefficient(coefficient, entropy, EntropyBonusParams(coefficient=0.1)) == coefficient  # no target


@pytest.mark.parametrize(
    ("aggregation", "terms", "message"),
    [
        ({}, {"positive_nll": 0.1}, "terms.positive_nll reads TokenBatch.correct_B"),
        ({}, {"entropy_bonus": {"coefficient": 0.1}}, "terms.entropy_bonus reads TokenBatch.entropy_BT"),
        ({"denominator": "active"}, {}, "aggregation.denominator active reads TokenBatch.active_B"),
    ],
)
def test_what_a_term_needs_is_asked_for(aggregation: dict[str, str], terms: dict[str, float], message: str) -> None:
    tokens = TokenBatch(LOGPROBS_BT, LOGPROBS_BT, LOGPROBS_BT, MASK_BT)
    with pytest.raises(ValueError, match=message):
        objective(
            tokens, GRPOParams(), AggregationParams.model_validate(aggregation), TermsParams.model_validate(terms)
        )
