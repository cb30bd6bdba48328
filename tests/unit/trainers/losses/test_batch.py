import pytest
import torch

from trainers.losses import TokenBatch


def test_a_batch_of_unequal_shapes_is_refused() -> None:
    values_BT = torch.zeros(2, 3)
    with pytest.raises(ValueError, match=r"advantages_BT has shape \(2,\), logprobs_BT \(2, 3\)"):
        TokenBatch(values_BT, values_BT, torch.zeros(2), values_BT)
    with pytest.raises(ValueError, match=r"takes \(B, T\)"):
        TokenBatch(values_BT[0], values_BT[0], values_BT[0], values_BT[0])


def test_padding_reads_zero_and_only_the_policy_carries_a_gradient() -> None:
    values_BT = torch.tensor([[1.0, float("nan")]], requires_grad=True)
    batch = TokenBatch(values_BT, values_BT, values_BT, torch.tensor([[1, 0]]))
    assert batch.mask_BT.tolist() == [[True, False]]
    assert batch.logprobs_BT.tolist() == batch.advantages_BT.tolist() == [[1.0, 0.0]]
    assert batch.logprobs_BT.requires_grad
    assert not batch.old_logprobs_BT.requires_grad
    assert not batch.advantages_BT.requires_grad


def test_flags_may_have_any_dtype_and_per_sequence_parts_their_own_shape() -> None:
    values_BT = torch.zeros(2, 3)
    flags_BT = torch.tensor([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0]])
    batch = TokenBatch(values_BT, values_BT, values_BT, flags_BT, selected_BT=1 - flags_BT, correct_B=torch.ones(2))
    assert batch.selected_BT is not None
    assert not batch.selected_BT.any(), "padding is never selected"
    assert batch.correct_B is not None
    assert batch.correct_B.dtype == torch.bool
    with pytest.raises(ValueError, match=r"correct_B has shape \(3,\), logprobs_BT \(2, 3\); .* \(B,\)"):
        TokenBatch(values_BT, values_BT, values_BT, flags_BT, correct_B=torch.ones(3))
    with pytest.raises(ValueError, match="entropy_BT has shape"):
        TokenBatch(values_BT, values_BT, values_BT, flags_BT, entropy_BT=torch.ones(2))


def test_a_clamped_log_ratio_is_cut_and_passes_no_gradient_beyond_the_clamp() -> None:
    logprobs_BT = torch.tensor([[-25.0, -20.0, 1.0, 25.0]], dtype=torch.float64, requires_grad=True)
    zeros_BT = torch.zeros(1, 4, dtype=torch.float64)
    batch = TokenBatch(logprobs_BT, zeros_BT, zeros_BT, torch.ones(1, 4))
    units = [batch.unit_BT(clamp) for clamp in (20.0, None)]
    slopes = [torch.autograd.grad(unit_BT.sum(), logprobs_BT, retain_graph=True)[0].tolist() for unit_BT in units]
    assert [unit_BT.tolist() for unit_BT in units] == [[[1, 1, 1, 1]]] * 2
    assert slopes == [[[0, 1, 1, 0]], [[1, 1, 1, 1]]]
    expected_BT = torch.tensor([[-20.0, -20.0, 1.0, 20.0]], dtype=torch.float64).exp()
    assert torch.equal(batch.ratio_BT(20.0), expected_BT)
    assert torch.equal(batch.ratio_BT(None), logprobs_BT.detach().exp())
    assert not batch.ratio_BT(20.0).requires_grad


@pytest.mark.parametrize(("dtype", "limit"), [(torch.float32, 44.36), (torch.float64, 354.9)])
def test_without_a_clamp_a_ratio_stops_where_a_sum_would_overflow(dtype: torch.dtype, limit: float) -> None:
    values_BT = torch.tensor([[1e6, -1e6]], dtype=dtype)
    zeros_BT = torch.zeros_like(values_BT)
    ratio_BT = TokenBatch(values_BT, zeros_BT, zeros_BT, torch.ones(1, 2)).ratio_BT(None)
    assert ratio_BT.log().tolist()[0] == pytest.approx([limit, -limit], rel=1e-3)
