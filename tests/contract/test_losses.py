"""What every row of LOSSES must satisfy. The closed forms below share no code with the losses."""

from collections.abc import Callable
from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from trainers.losses import LOSSES, REGIONS, CEGPPOParams, ClipParams, GRPOParams, LossOutput, TokenBatch, token_mean


def clipped_weight(ratio: float, sign: int, params: ClipParams) -> float:
    if (sign > 0 and ratio > 1 + params.epsilon_high) or (sign < 0 and ratio < 1 - params.epsilon_low):
        return 0.0
    if sign < 0 and params.dual_clip is not None and ratio > params.dual_clip:
        return 0.0
    return ratio


def ce_gppo_weight(ratio: float, sign: int, params: ClipParams) -> float:
    assert isinstance(params, CEGPPOParams)
    if sign < 0 and ratio < 1 - params.epsilon_low:
        return params.beta1 * (1 - params.epsilon_low)
    if sign > 0 and ratio > 1 + params.epsilon_high:
        return params.beta2 * (1 + params.epsilon_high)
    return clipped_weight(ratio, sign, params)


WEIGHTS: dict[str, Callable[[float, int, ClipParams], float]] = {
    "grpo": clipped_weight,
    "dapo": clipped_weight,
    "ce_gppo": ce_gppo_weight,
}

every_loss = pytest.mark.parametrize("name", LOSSES)
advantages = st.floats(-5, 5).filter(lambda a: abs(a) > 1e-3)
log_ratios = st.floats(-6, 6)
tokens = st.lists(st.tuples(log_ratios, advantages), min_size=1, max_size=12)
quick = settings(max_examples=60, deadline=None)


def run(name: str, params: ClipParams, rows: list[tuple[float, float]]) -> tuple[LossOutput, Tensor]:
    """The loss of one sequence of (log-ratio, advantage) in float64, and d (sum of losses) / d log-prob."""
    delta_BT = torch.tensor([[delta for delta, _ in rows]], dtype=torch.float64)
    advantages_BT = torch.tensor([[advantage for _, advantage in rows]], dtype=torch.float64)
    old_BT = torch.full_like(delta_BT, 0.0)
    logprobs_BT = delta_BT.clone().requires_grad_()
    output = LOSSES[name].function(TokenBatch(logprobs_BT, old_BT, advantages_BT, torch.ones_like(delta_BT)), params)
    (grad_BT,) = torch.autograd.grad(output.loss_BT.sum(), logprobs_BT)
    return output, grad_BT


def test_every_loss_has_a_closed_form() -> None:
    assert set(WEIGHTS) == set(LOSSES)
    assert all(entry.params.model_fields["name"].default == name for name, entry in LOSSES.items())


@every_loss
@pytest.mark.parametrize("dual_clip", [None, 2.99])
@pytest.mark.parametrize("epsilons", [(0.2, 0.2), (0.1, 0.3)])
def test_gradient_weight_equals_the_closed_form_on_a_grid(
    name: str, dual_clip: float | None, epsilons: tuple[float, float]
) -> None:
    params = LOSSES[name].params(epsilon_low=epsilons[0], epsilon_high=epsilons[1], dual_clip=dual_clip)
    ratios = [*torch.linspace(0.02, 4.0, 200, dtype=torch.float64).tolist(), 1e-6, 50.0]
    for sign, size in product((-1, 1), (0.5, 2.0)):
        rows = [(float(torch.tensor(ratio, dtype=torch.float64).log()), sign * size) for ratio in ratios]
        _, grad_BT = run(name, params, rows)
        weights_BT = grad_BT / (-sign * size)
        expected = [WEIGHTS[name](ratio, sign, params) for ratio in ratios]
        torch.testing.assert_close(weights_BT[0], torch.tensor(expected, dtype=torch.float64))


@quick
@given(rows=tokens, beta1=st.floats(0, 2), beta2=st.floats(0, 2))
def test_ce_gppo_gradient_weight_for_any_betas(rows: list[tuple[float, float]], beta1: float, beta2: float) -> None:
    params = CEGPPOParams(beta1=beta1, beta2=beta2)
    _, grad_BT = run("ce_gppo", params, rows)
    ratios = torch.tensor([delta for delta, _ in rows], dtype=torch.float64).exp().tolist()
    expected = [
        -advantage * ce_gppo_weight(ratio, 1 if advantage > 0 else -1, params)
        for ratio, (_, advantage) in zip(ratios, rows, strict=True)
    ]
    torch.testing.assert_close(grad_BT[0], torch.tensor(expected, dtype=torch.float64))


@every_loss
def test_a_ratio_exactly_on_a_bound_is_inside(name: str) -> None:
    low, high = torch.tensor([-0.2, 0.2], dtype=torch.float64).exp().tolist()
    params = LOSSES[name].params(epsilon_low=1 - low, epsilon_high=high - 1)
    assert (params.low, params.high) == (low, high)
    output, grad_BT = run(name, params, [(-0.2, -1.0), (0.2, 1.0), (-0.2, 1.0), (0.2, -1.0)])
    assert grad_BT[0].tolist() == pytest.approx([low, -high, -low, high], rel=1e-15)
    assert not any(mask_BT.any() for mask_BT in output.regions.values())


@every_loss
@quick
@given(values=st.lists(st.floats(-5, 5), min_size=1, max_size=8))
def test_at_ratio_one_it_is_reinforce(name: str, values: list[float]) -> None:
    _, grad_BT = run(name, LOSSES[name].params(), [(0.0, advantage) for advantage in values])
    assert grad_BT[0].tolist() == pytest.approx([-advantage for advantage in values])


@every_loss
@quick
@given(
    rows=tokens,
    garbage=st.sampled_from([float("nan"), float("inf"), -float("inf"), 1e30, -300.0]),
    kept=st.lists(st.booleans(), min_size=12, max_size=12),
)
def test_masked_tokens_change_nothing(
    name: str, rows: list[tuple[float, float]], garbage: float, kept: list[bool]
) -> None:
    mask_BT = torch.tensor([kept[: len(rows)]])
    results: list[tuple[Tensor, Tensor]] = []
    for filler in (0.0, garbage):
        delta_BT, advantages_BT = torch.tensor([rows], dtype=torch.float64).unbind(-1)
        logprobs_BT = delta_BT.where(mask_BT, filler).requires_grad_()
        old_BT = torch.zeros_like(delta_BT).where(mask_BT, -filler)
        batch = TokenBatch(logprobs_BT, old_BT, advantages_BT.where(mask_BT, filler), mask_BT)
        output = LOSSES[name].function(batch, LOSSES[name].params())
        loss = token_mean(output.loss_BT, mask_BT)
        results.append((loss.detach(), torch.autograd.grad(loss, logprobs_BT)[0]))
        assert not any((region_BT & ~mask_BT).any() for region_BT in output.regions.values())
    (clean_loss, clean_BT), (loss, grad_BT) = results
    assert torch.equal(loss, clean_loss)
    assert torch.equal(grad_BT, clean_BT)
    assert not grad_BT[~mask_BT].any()


@every_loss
@pytest.mark.parametrize("delta", [-1e4, -90.0, -20.5, 20.5, 90.0, 1e4])
@pytest.mark.parametrize("advantage", [-10.0, 0.0, 10.0])
@pytest.mark.parametrize("dual_clip", [None, 10.0])
def test_extreme_ratios_stay_finite_in_float32(
    name: str, delta: float, advantage: float, dual_clip: float | None
) -> None:
    logprobs_BT = torch.tensor([[delta, 0.0]], requires_grad=True)
    old_BT, advantages_BT = torch.zeros(1, 2), torch.tensor([[advantage, 1.0]])
    batch = TokenBatch(logprobs_BT, old_BT, advantages_BT, torch.ones(1, 2))
    output = LOSSES[name].function(batch, LOSSES[name].params(dual_clip=dual_clip))
    (grad_BT,) = torch.autograd.grad(output.loss_BT.sum(), logprobs_BT)
    assert output.loss_BT.isfinite().all()
    assert grad_BT.isfinite().all()


@quick
@given(rows=tokens)
def test_ce_gppo_with_zero_betas_has_the_gradient_of_ppo_clip(rows: list[tuple[float, float]]) -> None:
    for dual_clip in (None, 10.0):
        _, ours_BT = run("ce_gppo", CEGPPOParams(beta1=0, beta2=0, dual_clip=dual_clip), rows)
        _, ppo_BT = run("grpo", GRPOParams(dual_clip=dual_clip), rows)
        torch.testing.assert_close(ours_BT, ppo_BT)


@quick
@given(rows=tokens)
def test_ce_gppo_with_unit_betas_is_gppo(rows: list[tuple[float, float]]) -> None:
    """GPPO as its authors write it: the ratio clipped to bounds that carry the ratio's own gradient."""
    output, grad_BT = run("ce_gppo", CEGPPOParams(beta1=1, beta2=1, dual_clip=None), rows)
    delta_BT, advantages_BT = torch.tensor([rows], dtype=torch.float64).unbind(-1)
    logprobs_BT = delta_BT.clone().requires_grad_()
    ratio_BT = logprobs_BT.exp()
    unit_BT = ratio_BT / ratio_BT.detach()
    clipped_BT = ratio_BT.maximum(0.8 * unit_BT).minimum(1.2 * unit_BT)
    loss_BT = (-advantages_BT * ratio_BT).maximum(-advantages_BT * clipped_BT)
    torch.testing.assert_close(output.loss_BT, loss_BT)
    torch.testing.assert_close(grad_BT, torch.autograd.grad(loss_BT.sum(), logprobs_BT)[0])


@quick
@given(rows=tokens)
def test_ce_gppo_with_unit_betas_has_the_value_of_ppo_clip(rows: list[tuple[float, float]]) -> None:
    ours, _ = run("ce_gppo", CEGPPOParams(beta1=1, beta2=1), rows)
    ppo, _ = run("grpo", GRPOParams(dual_clip=10), rows)
    torch.testing.assert_close(ours.loss_BT, ppo.loss_BT)


@every_loss
def test_regions_are_on_the_sides_the_paper_says(name: str) -> None:
    half, twice = float(torch.tensor(0.5).log()), float(torch.tensor(2.0).log())
    output, _ = run(name, LOSSES[name].params(), [(half, -1.0), (twice, 1.0), (half, 1.0), (twice, -1.0), (twice, 0.0)])
    assert set(output.regions) == set(REGIONS)
    found = {region: mask_BT[0].nonzero().flatten().tolist() for region, mask_BT in output.regions.items()}
    assert found == {"na_lp": [0], "pa_lp": [1], "pa_low": [2], "na_high": [3]}


def test_hand_worked_numbers() -> None:
    """Ratios 0.5, 1.5, 0.5, 1.5, 1.1, 20 with advantages -1, 2, 2, -1, 1, -1; epsilon 0.2, dual clip 10."""
    deltas = torch.tensor([0.5, 1.5, 0.5, 1.5, 1.1, 20.0], dtype=torch.float64).log().tolist()
    rows = list(zip(deltas, [-1.0, 2.0, 2.0, -1.0, 1.0, -1.0], strict=True))
    output, grad_BT = run("ce_gppo", CEGPPOParams(beta1=0.5, beta2=0.75), rows)
    assert output.loss_BT[0].tolist() == pytest.approx([0.4, -1.8, -1.0, 1.5, -1.1, 10.0])
    assert grad_BT[0].tolist() == pytest.approx([0.4, -1.8, -1.0, 1.5, -1.1, 0.0])
    output, grad_BT = run("grpo", GRPOParams(), rows)
    assert output.loss_BT[0].tolist() == pytest.approx([0.8, -2.4, -1.0, 1.5, -1.1, 20.0])
    assert grad_BT[0].tolist() == pytest.approx([0.0, 0.0, -1.0, 1.5, -1.1, 20.0])
