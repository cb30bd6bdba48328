"""Advantages steered by entropy: against plain loops for any groups, and in their limits."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.proof.plain_entropy_rewards import entropy_rewarded
from trainers.losses import (
    EntropyAdvantageParams,
    EntropyRewardParams,
    entropy_advantages,
    entropy_rewarded_advantages,
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
    shares = EntropyRewardParams.model_validate(params)
    mask_GNT = ~entropy_GNT.isnan()
    return entropy_rewarded_advantages(rewards_GN, torch.tensor([right]), entropy_GNT, mask_GNT, shares, offset)[0]


@settings(max_examples=60)
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
    advantages = shared(rewards, right, entropies, offset, level=level, compared=compared, base=base, share=share)
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
        torch.testing.assert_close(advantages[row, : len(values)], expected, rtol=1e-9, atol=tolerance)
        assert not advantages[row, len(values) :].any()
    assert advantages.isfinite().all()
