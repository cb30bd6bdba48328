"""Advantages steered by entropy: worked by hand, against plain loops for any groups, and in their limits."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.proof.plain_entropy_rewards import entropy_rewarded
from trainers.losses import (
    AdvantageParams,
    EntropyAdvantageParams,
    EntropyRewardParams,
    entropy_advantages,
    entropy_rewarded_advantages,
    group_advantages,
)

NAN = float("nan")


def test_uncertain_tokens_get_more_up_to_a_share_of_their_advantage() -> None:
    """alpha 0.4 and kappa 2: 0.4 H, at most |A| / 2; the sign stays."""
    advantages_BT = torch.tensor([[1.0, 1.0, -1.0, -1.0, 0.0]], dtype=torch.float64)
    entropy_BT = torch.tensor([[0.5, 9.0, 0.5, 9.0, 9.0]], dtype=torch.float64, requires_grad=True)
    shaped_BT = entropy_advantages(advantages_BT, entropy_BT, EntropyAdvantageParams())
    assert shaped_BT.tolist()[0] == pytest.approx([1.2, 1.5, -0.8, -0.5, 0.0])
    assert not shaped_BT.requires_grad


def test_no_factor_on_the_entropy_changes_no_bit() -> None:
    advantages_BT = torch.randn(3, 5, generator=torch.Generator().manual_seed(0))
    shaped_BT = entropy_advantages(advantages_BT, torch.rand(3, 5), EntropyAdvantageParams(alpha=0))
    assert torch.equal(shaped_BT, advantages_BT)


def shared(
    rewards: list[float], right: list[bool], entropies: list[list[float]], offset: float | None = 0.0, **params: Any
) -> Tensor:
    """Return the advantages of one group whose entropies are padded with NaN."""
    width = max(map(len, entropies), default=0)
    padded = [[*tokens, *[NAN] * (width - len(tokens))] for tokens in entropies]
    entropy_GNT = torch.tensor([padded], dtype=torch.float64)
    rewards_GN = torch.tensor([rewards], dtype=torch.float64)
    made = EntropyRewardParams.model_validate(params)
    mask_GNT = ~entropy_GNT.isnan()
    return entropy_rewarded_advantages(rewards_GN, torch.tensor([right]), entropy_GNT, mask_GNT, made, offset)[0]


def test_hand_worked_tokens() -> None:
    """1 + 0.1 (3/4) 2 and 1 + 0.1 (1/4) 2 of the right ones; -1 - 0.1 (1/5) 2 and -1 - 0.1 (4/5) 2 of the wrong ones.

    Their mean is 0.
    """
    found = shared([1, 1, -1, -1], [True, True, False, False], [[3.0], [1.0], [4.0], [1.0]], offset=None)
    assert found.flatten().tolist() == pytest.approx([1.15, 1.05, -1.04, -1.16], abs=1e-7)


def test_a_position_counts_the_completions_that_reach_it() -> None:
    """The third token of the longer right completion is alone: its share is 1 of 1."""
    found = shared([1, 1, -1], [True, True, False], [[1.0, 3.0, 0.2], [1.0, 1.0], [1.0]], offset=None, share=0.5)
    values = [1.5, 1.75, 1.5, 1.5, 1.25, -1.5]
    mean = math.fsum(values) / 6
    assert found[~found.eq(0)].tolist() == pytest.approx([value - mean for value in values], abs=1e-7)


def test_sequences_share_by_their_mean_entropy() -> None:
    """Means 2 and 1 of the right ones: 1 + 0.3 (2/3) 2 and 1 + 0.3 (1/3) 2."""
    found = shared(
        [1, 1, -1], [True, True, False], [[1.0, 3.0], [1.0], [5.0, 5.0]], offset=None, level="sequence", share=0.3
    )
    values = [1.4, 1.2, -1.3]
    mean = math.fsum(values) / 3
    expected = [[values[0] - mean] * 2, [values[1] - mean, 0.0], [values[2] - mean] * 2]
    assert torch.allclose(found, torch.tensor(expected, dtype=torch.float64), atol=1e-7)


def test_compared_with_its_own_set_a_right_token_may_have_a_negative_advantage() -> None:
    rewards, right, entropies = [1, 1, -1, -1], [True, True, False, False], [[3.0], [1.0], [4.0], [1.0]]
    own = shared(rewards, right, entropies, compared="set").flatten().tolist()
    root = math.sqrt(0.5)
    assert own == pytest.approx([root, -root, root, -root])
    group = shared(rewards, right, entropies).flatten().tolist()
    assert group[0] > group[1] > 0 > group[2] > group[3]


@pytest.mark.parametrize("right", [[True, True], [False, False]])
def test_a_group_that_is_all_right_or_all_wrong_has_no_advantage(right: list[bool]) -> None:
    assert not shared([1.0 if each else -1.0 for each in right], right, [[3.0, 1.0], [1.0]]).any()


def test_a_missing_reward_counts_nowhere() -> None:
    without = shared([1, -1], [True, False], [[3.0, 1.0], [2.0]])
    with_gap = shared([1, NAN, -1], [True, False, False], [[3.0, 1.0], [9.0, 9.0], [2.0]])
    assert torch.equal(with_gap[[0, 2]], without)
    assert not with_gap[1].any()


def test_without_a_share_sequences_have_the_groups_advantages() -> None:
    """Rewards of 1 and -1 instead of 1 and 0 change nothing but the size of the offset."""
    right = [True, False, False, True, False]
    found = shared([1.0 if r else -1.0 for r in right], right, [[0.3, 2.0]] * 5, level="sequence", share=0)
    plain = group_advantages(torch.tensor([right], dtype=torch.float64), AdvantageParams(epsilon=0))
    torch.testing.assert_close(found, plain[0].unsqueeze(1).expand(5, 2))


def test_rewards_are_only_shared_out_where_the_factors_sum_to_one() -> None:
    """At each position the right ones' rewards have the sum d, the wrong ones' -h."""
    rewards, right = [1, 1, -1, -1, 1], [True, True, False, False, True]
    entropies = [[0.3, 0.1, 2.0], [4.0, 0.2], [0.1, 0.9, 0.4], [2.2], [1.0, 1.0, 0.01]]
    found = shared(rewards, right, entropies, offset=None, base=0.9, share=0.1)
    plain = shared(rewards, right, entropies, offset=None, base=1.0, share=0.0)
    for rows in ([0, 1, 4], [2, 3]):
        torch.testing.assert_close(found[rows].sum(0), plain[rows].sum(0), rtol=1e-9, atol=1e-12)


@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_any_group_has_the_advantages_of_the_plain_loops(data: st.DataObject) -> None:
    size = data.draw(st.integers(1, 6))
    right = data.draw(st.lists(st.booleans(), min_size=size, max_size=size))
    rewards = [data.draw(st.sampled_from([1.0, 0.6, NAN]) if each else st.sampled_from([-1.0, -1.4])) for each in right]
    entropy = st.floats(0, 12).map(lambda value: round(value, 4))
    entropies = [data.draw(st.lists(entropy, min_size=1, max_size=4)) for _ in range(size)]
    level, compared = data.draw(st.sampled_from(["token", "sequence"])), data.draw(st.sampled_from(["group", "set"]))
    base, share = data.draw(st.floats(0.1, 2)), data.draw(st.floats(0, 1))
    offset = data.draw(st.sampled_from([1e-6, 0.1, None]))
    found = shared(rewards, right, entropies, offset, level=level, compared=compared, base=base, share=share)
    plain = entropy_rewarded(
        rewards,
        right,
        entropies,
        per_token=level == "token",
        base=base,
        share=share,
        own_set=compared == "set",
        divisor_offset=offset,
    )
    for row, values in enumerate(plain):
        expected = torch.tensor(values, dtype=torch.float64)
        tolerance = 1e-9 if offset != 1e-6 else 1e-6  # equal values divided by 1e-6 show their rounding
        torch.testing.assert_close(found[row, : len(values)], expected, rtol=1e-9, atol=tolerance)
        assert not found[row, len(values) :].any()
    assert found.isfinite().all()
