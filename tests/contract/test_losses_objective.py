"""`objective` for every loss: parts of an update sum to the whole, and what does not count changes nothing."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tests.contract.losses import ALL_PARAMS, ALL_TERMS, brief, label, rows
from tests.losses.all_cases import CASES
from trainers.losses import (
    AGGREGATIONS,
    AggregationParams,
    ERCPenalty,
    Objective,
    TokenBatch,
    Totals,
    objective,
)

per_token = pytest.mark.parametrize(
    "params",
    [
        params
        for params in ALL_PARAMS
        if not CASES[params.name].looks_at_the_batch and not isinstance(getattr(params, "erc", None), ERCPenalty)
    ],
    ids=label,
)
every_loss = pytest.mark.parametrize("params", ALL_PARAMS, ids=label)
every_mode = pytest.mark.parametrize("mode", AGGREGATIONS)
denominators = pytest.mark.parametrize("denominator", ["window", "active"])

ROWS, WIDTH = 6, 5


def whole_batch(seed: int) -> TokenBatch:
    draw = torch.Generator().manual_seed(seed)

    def normal() -> torch.Tensor:
        return torch.randn(ROWS, WIDTH, generator=draw, dtype=torch.float64)

    lengths_B = torch.randint(0, WIDTH + 1, (ROWS,), generator=draw)
    return TokenBatch(
        (normal() - 2).requires_grad_(),
        normal() - 2,
        normal(),
        torch.arange(WIDTH) < lengths_B.unsqueeze(-1),
        entropy_BT=normal().abs().requires_grad_(),
        old_entropy_BT=normal().abs(),
        correct_B=torch.rand(ROWS, generator=draw) < 0.4,
        active_B=torch.rand(ROWS, generator=draw) < 0.6,
        reference_logprobs_BT=normal() - 2,
    )


def rows_of(batch: TokenBatch, rows: Any) -> TokenBatch:
    parts = {name: part[rows] for name, part in vars(batch).items() if isinstance(part, torch.Tensor)}
    return TokenBatch(**parts)


def totals_of(batch: TokenBatch, denominator: str) -> Totals:
    mask_BT, active_B, correct_B = batch.mask_BT, batch.active_B, batch.correct_B
    assert active_B is not None
    assert correct_B is not None
    if denominator == "active":
        correct_B = correct_B & active_B
    counts = {"width": torch.tensor(WIDTH)}
    for prefix, rows_B in (("", torch.ones_like(active_B)), ("active_", active_B), ("correct_", correct_B)):
        counts[f"{prefix}tokens"] = mask_BT[rows_B].sum()
        counts[f"{prefix}sequences"] = mask_BT[rows_B].any(-1).sum()
    return Totals(**counts)


def gradients(batch: TokenBatch, *parts: Objective) -> tuple[torch.Tensor, ...]:
    assert batch.entropy_BT is not None
    return torch.autograd.grad(sum(part.loss for part in parts), (batch.logprobs_BT, batch.entropy_BT))


@per_token
@every_mode
@denominators
@brief
@given(seed=st.integers(0, 999), cut=st.integers(0, ROWS))
def test_parts_with_totals_sum_to_the_whole(params: Any, mode: Any, denominator: Any, seed: int, cut: int) -> None:
    aggregation, batch = AggregationParams(mode=mode, denominator=denominator), whole_batch(seed)
    whole = objective(batch, params, aggregation, ALL_TERMS, positive_weight=0.4)
    totals = totals_of(batch, denominator)
    pieces = [
        objective(rows_of(batch, rows), params, aggregation, ALL_TERMS, positive_weight=0.4, totals=totals)
        for rows in (slice(cut), slice(cut, ROWS))
    ]
    for name in ("loss", "policy_loss", "entropy", "positive_nll", "kl"):
        torch.testing.assert_close(sum(getattr(piece, name) for piece in pieces), getattr(whole, name))
    for part, other in zip(gradients(batch, *pieces), gradients(batch, whole), strict=True):
        torch.testing.assert_close(part, other)


@every_loss
@every_mode
@brief
@given(seed=st.integers(0, 999))
def test_with_active_denominators_groups_without_spread_are_not_there(params: Any, mode: Any, seed: int) -> None:
    batch = whole_batch(seed)
    given_all = objective(
        replace(batch, generator=torch.Generator().manual_seed(1)),
        params,
        AggregationParams(mode=mode, denominator="active"),
        ALL_TERMS,
    )
    given_active = objective(
        replace(rows_of(batch, batch.active_B), generator=torch.Generator().manual_seed(1)),
        params,
        AggregationParams(mode=mode),
        ALL_TERMS,
    )
    torch.testing.assert_close(given_all.loss, given_active.loss)
    for one, other in zip(gradients(batch, given_all), gradients(batch, given_active), strict=True):
        torch.testing.assert_close(one, other)


@every_loss
def test_the_parts_make_up_the_loss(params: Any) -> None:
    answer = objective(whole_batch(3), params, AggregationParams(), ALL_TERMS)
    assert answer.entropy is not None
    assert answer.positive_nll is not None
    assert answer.kl is not None
    penalty = answer.penalty if answer.penalty is not None else 0.0
    coefficient, weight = ALL_TERMS.entropy_bonus.coefficient, ALL_TERMS.positive_nll
    expected = answer.policy_loss + penalty - coefficient * answer.entropy + weight * answer.positive_nll
    expected = expected + ALL_TERMS.kl.coefficient * answer.kl
    torch.testing.assert_close(answer.loss.detach(), expected)
    assert not any(part.requires_grad for part in (answer.policy_loss, answer.entropy, answer.positive_nll, answer.kl))
    assert (answer.penalty is not None) == isinstance(getattr(params, "erc", None), ERCPenalty)


garbage = st.sampled_from([float("nan"), float("inf"), -float("inf"), 1e30, -300.0])


def result(params: Any, rows_BT: Tensor, mask_BT: Tensor, filler: float) -> tuple[Tensor, ...]:
    """Objective with all terms and its gradients, where every input reads `filler` at padding."""

    def filled(values_BT: Tensor) -> Tensor:
        return values_BT.where(mask_BT, filler)

    delta_BT, advantages_BT = rows_BT.unbind(-1)
    logprobs_BT = filled(delta_BT - 2).requires_grad_()
    entropy_BT = filled(delta_BT.abs()).requires_grad_()
    batch = TokenBatch(
        logprobs_BT,
        filled(torch.full_like(delta_BT, -2.0)),
        filled(advantages_BT),
        mask_BT,
        entropy_BT=entropy_BT,
        old_entropy_BT=filled(delta_BT.abs() + 0.1),
        correct_B=torch.tensor([True] * len(rows_BT)),
        reference_logprobs_BT=filled(delta_BT / 2 - 2),
        generator=torch.Generator().manual_seed(0),
    )
    answer = objective(batch, params, AggregationParams(), ALL_TERMS)
    masks = answer.output.regions.values()
    selected_BT = answer.output.selected_BT
    assert not any((region_BT & ~mask_BT).any() for region_BT in masks)
    assert selected_BT is None or not (selected_BT & ~mask_BT).any()
    return answer.loss.detach(), *torch.autograd.grad(answer.loss, (logprobs_BT, entropy_BT))


@every_loss
@brief
@given(rows=rows, filler=garbage, kept=st.lists(st.booleans(), min_size=12, max_size=12))
def test_padding_changes_nothing(params: Any, rows: list[Any], filler: float, kept: list[bool]) -> None:
    rows_BT = torch.tensor([rows, rows[::-1]], dtype=torch.float64)
    mask_BT = torch.tensor([kept[: len(rows)]]).expand(2, -1)
    clean, dirty = (result(params, rows_BT, mask_BT, value) for value in (0.0, filler))
    for one, other in zip(clean, dirty, strict=True):
        assert torch.equal(one, other)
        assert one.isfinite().all()
    assert not any(grad_BT[~mask_BT].any() for grad_BT in clean[1:])
