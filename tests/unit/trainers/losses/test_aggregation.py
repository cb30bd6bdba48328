import pytest
import torch

from trainers.losses import AGGREGATIONS
from trainers.losses.base import AggregationName

NAN = float("nan")
VALUES_BT = torch.tensor([[1.0, 2.0, 3.0, NAN], [5.0, NAN, NAN, NAN], [NAN, NAN, NAN, NAN]])
MASK_BT = VALUES_BT.isfinite()


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("token_mean", 11 / 4),
        ("seq_mean_token_mean", (2 + 5) / 2),
        ("seq_mean_token_sum", (6 + 5) / 2),
        ("seq_mean_token_sum_norm", 11 / 4),
    ],
)
def test_hand_worked_values_leave_out_empty_rows(mode: AggregationName, expected: float) -> None:
    assert AGGREGATIONS[mode](VALUES_BT, MASK_BT).item() == pytest.approx(expected)


@pytest.mark.parametrize("mode", AGGREGATIONS)
def test_nothing_valid_gives_zero_and_no_gradient(mode: AggregationName) -> None:
    values_BT = torch.full((2, 3), NAN, requires_grad=True)
    result = AGGREGATIONS[mode](values_BT, torch.zeros(2, 3, dtype=torch.bool))
    (grad_BT,) = torch.autograd.grad(result, values_BT)
    assert result.item() == 0
    assert not grad_BT.any()


@pytest.mark.parametrize(
    ("mode", "total"),
    [("token_mean", 4), ("seq_mean_token_mean", 2), ("seq_mean_token_sum", 2), ("seq_mean_token_sum_norm", 4)],
)
def test_parts_with_the_whole_total_add_up_to_the_whole(mode: AggregationName, total: int) -> None:
    parts = [AGGREGATIONS[mode](VALUES_BT[i : i + 1], MASK_BT[i : i + 1], total) for i in range(3)]
    assert float(sum(parts)) == pytest.approx(AGGREGATIONS[mode](VALUES_BT, MASK_BT).item())
