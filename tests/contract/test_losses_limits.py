"""Losses that become another one, bit for bit or to rounding, where their parameters say so."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.contract.losses import Row, quick, rows, run, with_bounds
from trainers.losses import (
    BAPOParams,
    CEGPPOParams,
    CISPOParams,
    ClipCovParams,
    DAPOParams,
    ERCMask,
    ERCPenalty,
    GPPOParams,
    GRPOParams,
    GSPOParams,
    KLCovParams,
)

dual_clips = st.none() | st.floats(1.3, 20)
bounds = st.fixed_dictionaries({"epsilon_low": st.floats(0.01, 0.9), "epsilon_high": st.floats(0.01, 0.29)})


def same(one: Any, other: Any, tokens: list[Row], *, value: bool = True, gradient: bool = True, **parts: Any) -> None:
    (left, left_grad_BT), (right, right_grad_BT) = run(one, tokens, **parts), run(other, tokens, **parts)
    if value:
        torch.testing.assert_close(left.loss_BT, right.loss_BT)
    if gradient:
        torch.testing.assert_close(left_grad_BT, right_grad_BT)


LIMITS: dict[str, tuple[Callable[..., Any], Callable[..., Any], set[str]]] = {
    "zero betas have the gradient of ppo clip": (partial(CEGPPOParams, beta1=0, beta2=0), GRPOParams, {"gradient"}),
    "unit betas are gppo": (partial(CEGPPOParams, beta1=1, beta2=1), GPPOParams, {"value", "gradient"}),
    "gppo has the value of ppo clip": (GPPOParams, GRPOParams, {"value"}),
    "dapo is grpo with other defaults": (DAPOParams, GRPOParams, {"value", "gradient"}),
    "gspo of one-token sequences is grpo": (GSPOParams, GRPOParams, {"value", "gradient"}),
    "clip-cov that selects nothing is grpo": (ClipCovParams, GRPOParams, {"value", "gradient"}),
}
"""Two losses that are the same for all bounds, and in what."""


@pytest.mark.parametrize("limit", LIMITS)
@quick
@given(tokens=rows, clip=bounds, dual_clip=dual_clips)
def test_a_loss_becomes_another_one(limit: str, tokens: list[Row], clip: Any, dual_clip: float | None) -> None:
    one, other, alike = LIMITS[limit]
    if "dual_clip" in type(one(**clip)).model_fields:
        clip = {**clip, "dual_clip": dual_clip}
    same(one(**clip), other(**clip), tokens, value="value" in alike, gradient="gradient" in alike)


@quick
@given(tokens=rows, dual_clip=st.none() | st.floats(1.7, 20))
def test_dcpo_where_all_old_probabilities_are_one_is_dapo(tokens: list[Row], dual_clip: float | None) -> None:
    dcpo = with_bounds("dcpo", 0.8, 1.25).model_copy(update={"dual_clip": dual_clip})
    clip = {"epsilon_low": 1 - dcpo.low, "epsilon_high": dcpo.high - 1, "log_ratio_clamp": None}
    same(dcpo, DAPOParams(dual_clip=dual_clip, **clip), tokens)


@quick
@given(tokens=rows, target=st.floats(0, 5))
def test_bapo_whose_bounds_cannot_move_is_dapo(tokens: list[Row], target: float) -> None:
    clip = {"epsilon_low": 0.25, "epsilon_high": 0.5, "dual_clip": 4.0}
    same(BAPOParams(**clip, low_end=0.75, high_end=1.5, target=target), DAPOParams(**clip), tokens)


@quick
@given(tokens=rows)
def test_without_bounds_cispo_and_kl_cov_are_plain_importance_sampling(tokens: list[Row]) -> None:
    plain = CISPOParams(epsilon_low=1, epsilon_high=1e9)
    _, grad_BT = run(plain, tokens)
    expected_BT = [[-advantage * torch.tensor(delta).double().exp().item()] for delta, advantage in tokens]
    torch.testing.assert_close(grad_BT, torch.tensor(expected_BT, dtype=torch.float64), rtol=1e-6, atol=1e-9)
    same(KLCovParams(kl_coefficient=0), plain, tokens, value=False)


@pytest.mark.parametrize("kind", [DAPOParams, GPPOParams, CEGPPOParams])
@quick
@given(tokens=rows, data=st.data())
def test_wide_erc_bounds_change_nothing(kind: Any, tokens: list[Row], data: st.DataObject) -> None:
    column = st.lists(st.floats(0, 5), min_size=len(tokens), max_size=len(tokens))
    entropy_BT, old_entropy_BT = (torch.tensor(data.draw(column), dtype=torch.float64).unsqueeze(-1) for _ in range(2))
    parts = {"entropy_BT": entropy_BT, "old_entropy_BT": old_entropy_BT}
    same(kind(erc=ERCMask(low=0, high=1e12)), kind(), tokens, **parts)
    output, _ = run(kind(erc=ERCPenalty(low=0, high=1e12)), tokens, **parts)
    assert output.penalty is not None
    assert output.penalty.item() == 0
    same(kind(erc=ERCPenalty(low=0, high=1e12)), kind(), tokens, **parts)
