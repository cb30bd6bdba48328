"""No loss leaks padding or leaves the finite numbers."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tests.contract.losses import label, quick, rows
from trainers.losses import (
    LOSSES,
    AggregationParams,
    EntropyBonusParams,
    ERCMask,
    ERCPenalty,
    ReferenceKLParams,
    TermsParams,
    TokenBatch,
    objective,
)

ALL_TERMS = TermsParams(
    positive_nll=0.1,
    entropy_bonus=EntropyBonusParams(coefficient=0.01),
    kl=ReferenceKLParams(coefficient=0.05),
)
ALL_PARAMS = [
    *(entry.params() for entry in LOSSES.values()),
    *(
        entry.params(erc=erc)
        for entry in LOSSES.values()
        if "erc" in entry.params.model_fields
        for erc in (ERCMask(), ERCPenalty())
    ),
]
every_loss = pytest.mark.parametrize("params", ALL_PARAMS, ids=label)
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
    made = objective(batch, params, AggregationParams(), ALL_TERMS)
    masks = made.output.regions.values()
    selected_BT = made.output.selected_BT
    assert not any((region_BT & ~mask_BT).any() for region_BT in masks)
    assert selected_BT is None or not (selected_BT & ~mask_BT).any()
    return made.loss.detach(), *torch.autograd.grad(made.loss, (logprobs_BT, entropy_BT))


@every_loss
@quick
@given(rows=rows, filler=garbage, kept=st.lists(st.booleans(), min_size=12, max_size=12))
def test_padding_changes_nothing(params: Any, rows: list[Any], filler: float, kept: list[bool]) -> None:
    rows_BT = torch.tensor([rows, rows[::-1]], dtype=torch.float64)
    mask_BT = torch.tensor([kept[: len(rows)]]).expand(2, -1)
    clean, dirty = (result(params, rows_BT, mask_BT, value) for value in (0.0, filler))
    for one, other in zip(clean, dirty, strict=True):
        assert torch.equal(one, other)
        assert one.isfinite().all()
    assert not any(grad_BT[~mask_BT].any() for grad_BT in clean[1:])


@every_loss
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("clamped", [True, False])
def test_any_finite_log_ratio_gives_a_finite_loss_and_gradient(params: Any, dtype: torch.dtype, clamped: bool) -> None:
    if not clamped and "log_ratio_clamp" in type(params).model_fields:
        params = params.model_copy(update={"log_ratio_clamp": None})
    if "dual_clip" in type(params).model_fields:
        params = params.model_copy(update={"dual_clip": None})
    deltas = [-1e4, -300.0, -90.0, -20.5, 0.0, 20.5, 44.5, 90.0, 300.0, 1e4]
    tokens = [[(delta, advantage)] * 50 for delta in deltas for advantage in (-10.0, 0.0, 10.0)]
    rows_BT = torch.tensor(tokens, dtype=dtype)
    for part_BT in (rows_BT, *rows_BT.split(1)):
        for value in result(params, part_BT, torch.ones(part_BT.shape[:2], dtype=torch.bool), 0.0):
            assert value.isfinite().all()


@every_loss
def test_an_empty_batch_gives_zero(params: Any) -> None:
    loss, *gradients = result(params, torch.ones(2, 3, 2), torch.zeros(2, 3, dtype=torch.bool), float("nan"))
    assert loss == 0
    assert not any(grad_BT.any() for grad_BT in gradients)
