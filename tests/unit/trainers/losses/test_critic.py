"""Advantages from values, their normalisation, and the loss of the values: limits and plain loops."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from trainers.config import TrainingConfig
from trainers.losses import (
    AggregationParams,
    CriticParams,
    GRPOParams,
    TermsParams,
    TokenBatch,
    Totals,
    gae,
    objective,
    value_loss,
)
from trainers.losses.critic import moments, normalized, variance

NAN = math.nan
numbers = st.floats(-5, 5).map(lambda number: round(number, 4))
rows = st.lists(st.tuples(numbers, st.lists(numbers, min_size=1, max_size=6)), min_size=1, max_size=4)
"""Completions, each with its reward and the values before its tokens."""


def padded(completions: list[tuple[float, list[float]]], filler: float = 0.0) -> tuple[Tensor, Tensor, Tensor]:
    """Rewards, values and mask; `filler` stands at padding."""
    width = max(len(values) for _, values in completions) + 1
    values = [[*values, *[filler] * (width - len(values))] for _, values in completions]
    mask = [[place < len(values) for place in range(width)] for _, values in completions]
    rewards_B = torch.tensor([reward for reward, _ in completions], dtype=torch.float64)
    return rewards_B, torch.tensor(values, dtype=torch.float64), torch.tensor(mask)


def advantages(completions: list[tuple[float, list[float]]], filler: float = 0.0, **params: float) -> list[list[float]]:
    rewards_B, values_BT, mask_BT = padded(completions, filler)
    found_BT = gae(rewards_B, values_BT, mask_BT, CriticParams.model_validate(params))
    assert found_BT.dtype == values_BT.dtype
    assert not found_BT[~mask_BT].any()
    return [row[: len(values)] for row, (_, values) in zip(found_BT.tolist(), completions, strict=True)]


@given(completions=rows, gamma=st.floats(0, 1), gae_lambda=st.floats(0, 1))
def test_advantages_are_the_papers_sum(
    completions: list[tuple[float, list[float]]], gamma: float, gae_lambda: float
) -> None:
    computed = advantages(completions, gamma=gamma, gae_lambda=gae_lambda)
    for row, (reward, values) in zip(computed, completions, strict=True):
        rewards = [0.0] * (len(values) - 1) + [reward]
        deltas = [r + gamma * v1 - v0 for r, v0, v1 in zip(rewards, values, [*values[1:], 0.0], strict=True)]
        for t, advantage in enumerate(row):
            expected = sum((gamma * gae_lambda) ** ahead * delta for ahead, delta in enumerate(deltas[t:]))
            assert advantage == pytest.approx(expected, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("filler", [NAN, math.inf, 1e30])
def test_padding_and_missing_rewards_change_nothing(filler: float) -> None:
    completions = [(1.0, [0.5, 0.2, 0.1]), (0.0, [0.3])]
    clean = advantages(completions)
    assert advantages(completions, filler) == clean
    with_missing = advantages([*completions, (NAN, [0.5, 0.5])], filler)
    assert with_missing == [*clean, [0, 0]]


@given(values=st.lists(numbers, min_size=2, max_size=9), cut=st.integers(0, 9))
def test_normalised_advantages_have_mean_0_and_deviation_1(values: list[float], cut: int) -> None:
    advantages_BT = torch.tensor([[*values, NAN]], dtype=torch.float64)
    mask_BT = torch.tensor([[True] * len(values) + [False]])
    parts = [moments(part[None], mask[None]) for part, mask in ((advantages_BT[0, :cut], mask_BT[0, :cut]),)]
    whole = parts[0] + moments(advantages_BT[:, cut:], mask_BT[:, cut:])  # as of two processes
    found_BT = normalized(advantages_BT, mask_BT, whole)
    mean = sum(values) / len(values)
    unbiased = sum((value - mean) ** 2 for value in values) / (len(values) - 1)
    assert variance(whole).item() == pytest.approx(unbiased, rel=1e-9, abs=1e-9)
    expected = [(value - mean) / math.sqrt(unbiased + 1e-8) for value in values]
    assert found_BT[0].tolist() == pytest.approx([*expected, 0.0], rel=1e-6, abs=1e-6)


def test_equal_advantages_are_normalised_to_0() -> None:
    for values_BT in (torch.full((2, 3), 0.7), torch.full((1, 1), 0.7)):
        mask_BT = torch.ones_like(values_BT)
        found_BT = normalized(values_BT, mask_BT, moments(values_BT, mask_BT))
        assert found_BT.abs().max() < 1e-3
    nothing_BT = torch.zeros(1, 2)
    assert not normalized(nothing_BT, nothing_BT, moments(nothing_BT, nothing_BT)).any()


def plain_value_loss(value: float, old: float, target: float, clip: float | None) -> tuple[float, float]:
    """Loss of a token and its derivative, one case at a time."""
    if math.isnan(target):
        return 0.0, 0.0
    error = value - target
    if clip is not None and not old - clip <= value <= old + clip:
        bounded = old + clip if value > old else old - clip
        if (bounded - target) ** 2 > error**2:
            return 0.5 * (bounded - target) ** 2, 0.0
    return 0.5 * error**2, error


tokens = st.lists(st.tuples(numbers, numbers, numbers | st.just(NAN)), min_size=1, max_size=8)


@given(tokens=tokens, clip=st.none() | st.floats(0.05, 3))
def test_the_value_loss_is_its_definition(tokens: list[tuple[float, float, float]], clip: float | None) -> None:
    values_BT, old_BT, returns_BT = torch.tensor([tokens], dtype=torch.float64).unbind(-1)
    values_BT = values_BT.clone().requires_grad_()
    loss_BT = value_loss(values_BT, old_BT, returns_BT, CriticParams(value_clip=clip))
    (gradient_BT,) = torch.autograd.grad(loss_BT.sum(), values_BT)
    for loss, gradient, token in zip(loss_BT[0].tolist(), gradient_BT[0].tolist(), tokens, strict=True):
        expected = plain_value_loss(*token, clip)
        assert loss == pytest.approx(expected[0], rel=1e-9, abs=1e-9)
        value, old, target = token
        slopes = [plain_value_loss(value + step, old, target, clip)[1] for step in (-1e-9, 1e-9)]  # differ in a kink
        assert min(slopes) - 1e-8 <= gradient <= max(slopes) + 1e-8


ROWS, WIDTH = 5, 4


def batch(seed: int = 0) -> TokenBatch:
    draw = torch.Generator().manual_seed(seed)

    def normal() -> Tensor:
        return torch.randn(ROWS, WIDTH, generator=draw, dtype=torch.float64)

    mask_BT = torch.arange(WIDTH) < torch.randint(1, WIDTH + 1, (ROWS, 1), generator=draw)
    returns_BT = normal()
    returns_BT[2] = NAN
    values_BT = normal().masked_fill(~mask_BT, NAN).requires_grad_()
    return TokenBatch(
        (normal() - 2).requires_grad_(),
        normal() - 2,
        normal(),
        mask_BT,
        correct_B=torch.tensor([True, False, False, True, False]),
        values_BT=values_BT,
        old_values_BT=normal(),
        returns_BT=returns_BT,
    )


def total(
    update: TokenBatch, critic: CriticParams | None, mode: Any = "token_mean", totals: Totals | None = None
) -> Any:
    terms = TermsParams(positive_nll=0.1)
    return objective(update, GRPOParams(), AggregationParams(mode=mode), terms, critic=critic, totals=totals)


@pytest.mark.parametrize("mode", ["token_mean", "seq_mean_token_mean"])
def test_the_value_loss_is_aggregated_like_the_loss_and_added(mode: str) -> None:
    update, critic = batch(), CriticParams(value_coeff=0.3)
    without, with_critic = total(update, None, mode), total(update, critic, mode)
    assert without.value_loss is None
    parts = [update.values_BT, update.old_values_BT, update.returns_BT]
    rows: list[list[float]] = []
    for b in range(ROWS):
        length = int(update.mask_BT[b].sum())
        computed = [[part[b, t].item() for part in parts if part is not None] for t in range(length)]
        rows.append([plain_value_loss(*values, 0.2)[0] for values in computed])
    flat = [loss for row in rows for loss in row]
    means = [sum(row) / len(row) for row in rows]
    expected = sum(flat) / len(flat) if mode == "token_mean" else sum(means) / len(means)
    assert with_critic.value_loss.item() == pytest.approx(expected, rel=1e-12)
    assert with_critic.loss.item() == pytest.approx(without.loss.item() + 0.3 * expected, rel=1e-12)
    assert not with_critic.value_loss.requires_grad
    (gradient_BT,) = torch.autograd.grad(with_critic.loss, update.values_BT)
    assert gradient_BT.isfinite().all()
    assert not gradient_BT[~update.mask_BT].any()
    assert not gradient_BT[2].any()  # no reward, no target


def test_a_coefficient_of_0_leaves_the_loss_alone_and_measures() -> None:
    update = batch()
    off, measured = total(update, None), total(update, CriticParams(value_coeff=0))
    assert torch.equal(off.loss, measured.loss)
    assert measured.value_loss > 0
    (gradient,) = torch.autograd.grad(measured.loss, update.values_BT, allow_unused=True)
    assert gradient is None


def test_parts_of_an_update_add_up() -> None:
    update, critic = batch(3), CriticParams(value_coeff=0.7)
    assert update.correct_B is not None
    right = (update.mask_BT & update.correct_B.unsqueeze(1)).sum()
    totals = Totals(*[update.mask_BT.sum(), ROWS] * 2, right, update.correct_B.sum(), WIDTH)
    whole = total(update, critic)
    halves = [
        TokenBatch(**{name: part[half] for name, part in vars(update).items() if part is not None})
        for half in (slice(2), slice(2, ROWS))
    ]
    parts = [total(half, critic, totals=totals) for half in halves]
    torch.testing.assert_close(sum(part.value_loss for part in parts), whole.value_loss)
    torch.testing.assert_close(sum(part.loss for part in parts), whole.loss)


def test_what_a_critic_reads_is_asked_for() -> None:
    update = replace(batch(), values_BT=None)
    with pytest.raises(ValueError, match=r"critic reads TokenBatch.values_BT, which was not given"):
        total(update, CriticParams())


@pytest.mark.parametrize(
    ("settings", "remedy"),
    [
        ({"advantage": {"normalize_std": False}}, "critic.normalize"),
        ({"aggregation": {"denominator": "active"}}, "set it to window, or leave critic out"),
    ],
)
def test_settings_of_group_relative_advantages_are_refused(settings: dict[str, Any], remedy: str) -> None:
    TrainingConfig.model_validate(settings)
    with pytest.raises(ValueError, match=remedy):
        TrainingConfig.model_validate({**settings, "critic": {}})


def test_only_a_critic_that_is_there_is_written() -> None:
    assert "critic" not in TrainingConfig().model_dump()
    on = TrainingConfig.model_validate({"critic": {"gae_lambda": 1}})
    assert TrainingConfig.model_validate(on.model_dump(mode="json")) == on
    assert on.model_dump()["critic"]["gae_lambda"] == 1
