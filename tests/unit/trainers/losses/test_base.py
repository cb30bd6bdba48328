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


def test_a_clamped_log_ratio_passes_no_gradient_beyond_the_clamp() -> None:
    logprobs_BT = torch.tensor([[-25.0, -20.0, 25.0]], dtype=torch.float64, requires_grad=True)
    zeros_BT = torch.zeros(1, 3, dtype=torch.float64)
    batch = TokenBatch(logprobs_BT, zeros_BT, zeros_BT, torch.ones(1, 3))
    ratio_BT = batch.ratio_BT(20.0)
    (grad_BT,) = torch.autograd.grad(ratio_BT.sum(), logprobs_BT)
    edge = float(torch.tensor(-20.0, dtype=torch.float64).exp())
    assert ratio_BT[0, :2].tolist() == [edge, edge]
    assert grad_BT[0].tolist() == [0.0, edge, 0.0]
    assert batch.ratio_BT(None)[0, 2].item() == pytest.approx(7.2e10, rel=0.01)
