import pytest
import torch
from torch import Tensor

from trainers.losses import ClipCovParams, KLCovParams, TokenBatch, clip_cov, kl_cov

MASK_BT = torch.tensor([[1, 1, 1, 0], [1, 1, 1, 1]])
LOGPROBS_BT = torch.tensor([[-1.0, -2.0, -3.0, 500.0], [-0.5, -1.5, -2.5, -3.5]], dtype=torch.float64)
ADVANTAGES_BT = torch.tensor([[2.0, 2.0, 2.0, 1e6], [-1.0, -1.0, -1.0, -1.0]], dtype=torch.float64)
# mean A = 2/7, mean log pi = -2: covariances 12/7, 0, -12/7 and -27/14, -9/14, 9/14, 27/14


def batch(old_BT: Tensor = LOGPROBS_BT, seed: int = 0) -> TokenBatch:
    logprobs_BT, generator = LOGPROBS_BT.clone().requires_grad_(), torch.Generator().manual_seed(seed)
    return TokenBatch(logprobs_BT, old_BT, ADVANTAGES_BT, MASK_BT, generator=generator)


def places(mask_BT: Tensor | None) -> list[tuple[int, int]]:
    assert mask_BT is not None
    return [(row, column) for row, column in mask_BT.nonzero().tolist()]


@pytest.mark.parametrize(
    ("low", "high", "expected"), [(0.5, 1.5, [0, 2]), (0.0, 1.0, [1, 3]), (0.5, 1.0, []), (0.0, 9.0, [0, 1, 2, 3])]
)
def test_clip_covs_bounds_are_strict(low: float, high: float, expected: list[int]) -> None:
    """Covariances 1, 0.5, 1, 0.5, exactly."""
    logprobs_BT = torch.tensor([[-1.0, -1.5, -3.0, -2.5]])
    tokens = TokenBatch(logprobs_BT, logprobs_BT, torch.tensor([[1.0, 1.0, -1.0, -1.0]]), torch.ones(1, 4))
    params = ClipCovParams(selected_share=1, covariance_low=low, covariance_high=high)
    assert [column for _, column in places(clip_cov(tokens, params).selected_BT)] == expected


@pytest.mark.parametrize(("share", "count"), [(2e-4, 1), (0.2, 1), (0.3, 2), (1.0, 3)])
def test_clip_cov_draws_so_many_at_random_from_its_generator(share: float, count: int) -> None:
    params = ClipCovParams(selected_share=share, covariance_low=0.5)
    draws = [places(clip_cov(batch(seed=seed), params).selected_BT) for seed in range(20)]
    assert {len(draw) for draw in draws} == {count}
    assert {place for draw in draws for place in draw} == {(0, 0), (1, 2), (1, 3)}
    assert draws[3] == places(clip_cov(batch(seed=3), params).selected_BT)


def test_clip_cov_never_draws_what_ppo_has_clipped() -> None:
    old_BT = LOGPROBS_BT - torch.tensor([[2.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, -2.0]])
    params = ClipCovParams(epsilon_low=0.2, epsilon_high=0.2, selected_share=1, covariance_low=0.5)
    assert places(clip_cov(batch(old_BT), params).selected_BT) == [(1, 2)]


def test_kl_cov_selects_the_tokens_of_highest_covariance() -> None:
    assert places(kl_cov(batch(), KLCovParams(selected_share=0.3)).selected_BT) == [(0, 0), (1, 3)]
