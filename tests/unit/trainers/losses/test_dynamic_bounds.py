"""Clip bounds that are found from the tokens: worked by hand, and what their parameters refuse."""

from typing import Any

import pytest
import torch
from pydantic import ValidationError

from trainers.losses import BAPOParams, DCPOParams, LossOutput, TokenBatch, bapo, dcpo


def output_of(kind: Any, params: Any, rows: list[tuple[float, float, float]]) -> LossOutput:
    """Return the output for one-token sequences, each an old probability, a ratio and an advantage."""
    old_B, ratio_B, advantages_B = torch.tensor(rows, dtype=torch.float64).unbind(1)
    logprobs_BT = (old_B.log() + ratio_B.log()).unsqueeze(1).requires_grad_()
    mask_BT = torch.ones_like(logprobs_BT)
    return kind(TokenBatch(logprobs_BT, old_B.log().unsqueeze(1), advantages_B.unsqueeze(1), mask_BT), params)


def marked(output: LossOutput) -> dict[str, list[int]]:
    return {name: mask_BT.flatten().nonzero().flatten().tolist() for name, mask_BT in output.regions.items()}


def test_dcpos_regions_go_by_each_tokens_own_bounds() -> None:
    """A ratio of 1.5 is outside for a likely token and inside for an unlikely one; 0.6 likewise."""
    rows = [(0.9, 1.5, 1.0), (0.05, 1.5, 1.0), (0.9, 0.6, -1.0), (0.05, 0.6, -1.0), (0.9, 0.6, 1.0), (0.05, 9.0, -1.0)]
    output = output_of(dcpo, DCPOParams(), rows)
    assert marked(output) == {"na_lp": [2], "pa_lp": [0], "pa_low": [4], "na_high": [5]}


@pytest.mark.parametrize("old_logprob", [-2000.0, -90.0, -1e-12, 0.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_any_old_probability_has_finite_bounds_and_gradients(old_logprob: float, dtype: torch.dtype) -> None:
    for delta in (-300.0, -1.0, 0.0, 1.0, 300.0):
        logprobs_BT = torch.full((1, 2), old_logprob + delta, dtype=dtype, requires_grad=True)
        old_BT, advantages_BT = torch.full((1, 2), old_logprob, dtype=dtype), torch.tensor([[1.0, -1.0]], dtype=dtype)
        output = dcpo(TokenBatch(logprobs_BT, old_BT, advantages_BT, torch.ones(1, 2)), DCPOParams())
        output.loss_BT.sum().backward()
        assert output.bounds is not None
        assert logprobs_BT.grad is not None
        for values in (output.loss_BT, logprobs_BT.grad, *output.bounds):
            assert values.isfinite().all()
        assert output.bounds.high.max() <= 10
        assert output.bounds.low.min() >= 0.5


ROWS = [(0.5, 1.3, 1.0), (0.5, 1.8, 1.0), (0.5, 0.7, -1.0), (0.5, 1.0, -3.0)]


@pytest.mark.parametrize(
    ("target", "found"),
    [
        (0.6, (0.8, 1.2)),  # 2.4 / 3.8 = 0.63
        (0.64, (0.95, 1.3)),  # raising the lower bound alone only adds to the negative part: 2.4 / 3.95
        (0.69, (0.95, 1.5)),  # (1.3 + 1.4) / 3.95 = 0.684, (1.3 + 1.5) / 3.95 = 0.709
        (9.0, (0.95, 2.0)),  # out of reach
    ],
)
def test_bapo_raises_its_bounds_until_positive_tokens_have_their_part(
    target: float, found: tuple[float, float]
) -> None:
    output = output_of(bapo, BAPOParams(target=target), ROWS)
    assert output.bounds is not None
    assert (output.bounds.low.item(), output.bounds.high.item()) == pytest.approx(found)
    low, high = found
    assert marked(output) == {
        "na_lp": [2],
        "pa_lp": [row for row, (_, ratio, advantage) in enumerate(ROWS) if advantage > 0 and ratio > high],
        "pa_low": [],
        "na_high": [],
    }
    assert low < 1


def test_bapo_without_negative_tokens_has_enough_at_once() -> None:
    output = output_of(bapo, BAPOParams(target=1e6), [(0.5, 1.3, 1.0), (0.5, 1.0, 0.0)])
    assert output.bounds is not None
    assert (output.bounds.low.item(), output.bounds.high.item()) == (0.8, 1.2)


def test_bapo_tries_the_lower_bound_first_and_ends_where_it_says() -> None:
    pairs = BAPOParams(epsilon_low=0.1, low_end=0.93, low_step=0.02, high_end=1.3, high_step=0.06).pairs()
    assert [pair.low for pair in pairs] == pytest.approx([0.9, 0.92, 0.93, 0.93, 0.93])
    assert [pair.high for pair in pairs] == pytest.approx([1.2, 1.2, 1.2, 1.26, 1.3])
    assert len(BAPOParams(epsilon=0.05, low_end=0.95, high_end=1.05).pairs()) == 1


def test_bounds_that_no_search_can_reach_are_refused_all_at_once() -> None:
    with pytest.raises(ValidationError) as caught:
        BAPOParams(epsilon_low=0.02, epsilon_high=1.5, low_end=0.9, high_end=2.0, dual_clip=2.6)
    text = str(caught.value)
    assert "low_end 0.9 lies below 1 - epsilon_low = 0.98; raise it" in text
    assert "high_end 2.0 lies below 1 + epsilon_high = 2.5; raise it" in text
    with pytest.raises(ValidationError, match=r"dual_clip 1.9 must exceed high_end 2.0; raise it or use null"):
        BAPOParams(dual_clip=1.9)
    with pytest.raises(ValidationError, match=r"would try 803 pairs of bounds in every device batch, more than 100"):
        BAPOParams(high_step=0.001)
