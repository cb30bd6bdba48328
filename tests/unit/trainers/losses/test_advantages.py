import pytest
import torch

from trainers.losses import AdvantageParams, OverlongParams, group_advantages, overlong_penalty

NAN = float("nan")


def advantages(*groups: list[float], **params: float) -> list[list[float]]:
    return group_advantages(torch.tensor(groups, dtype=torch.float64), AdvantageParams.model_validate(params)).tolist()


def test_a_missing_reward_counts_nowhere() -> None:
    with_gap, without = advantages([1, NAN, 0, 0])[0], advantages([1, 0, 0])[0]
    assert with_gap == [without[0], 0, without[1], without[2]]
    assert advantages([NAN, NAN], [NAN, 1.0]) == [[0, 0], [0, 0]]


@pytest.mark.parametrize("epsilon", [0.0, 1e-6])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_equal_rewards_have_no_advantage_at_all(epsilon: float, dtype: torch.dtype) -> None:
    rewards_GN = torch.full((3, 7), 0.1, dtype=dtype)
    rewards_GN[1, 2] = NAN
    result_GN = group_advantages(rewards_GN, AdvantageParams(epsilon=epsilon))
    assert result_GN.dtype == dtype
    assert not result_GN.any()


def test_a_group_of_one_keeps_its_reward() -> None:
    assert advantages([0.7], [NAN], normalize_std=False) == [[0.7], [0]]
    assert advantages([0.7], epsilon=0.4)[0] == pytest.approx([0.5])


def test_the_overlong_penalty_is_linear_in_the_cache_and_stops_at_the_factor() -> None:
    lengths_B = torch.tensor([0, 80, 81, 90, 100, 130])
    penalty_B = overlong_penalty(lengths_B, 100, OverlongParams(cache_tokens=20, factor=2))
    assert penalty_B.tolist() == pytest.approx([0, 0, -0.1, -1, -2, -2])
