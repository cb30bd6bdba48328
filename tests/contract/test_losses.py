"""Contract of every row of LOSSES: the gradient weight of its closed form, and the sides of the regions."""

from importlib import import_module
from typing import Any

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.contract.losses import VARIANTS, Row, any_params, label, quick, rows, run, weight, with_bounds
from tests.losses.all_cases import CASES, MODULES
from trainers.losses import LOSSES, REGIONS

every_loss = pytest.mark.parametrize("name", LOSSES)


def expected_gradient(params: Any, tokens: list[Row]) -> torch.Tensor:
    ratios = torch.tensor([delta for delta, _ in tokens], dtype=torch.float64).exp().tolist()
    values = [-a * weight(ratio, a, params) for ratio, (_, a) in zip(ratios, tokens, strict=True)]
    return torch.tensor(values, dtype=torch.float64).unsqueeze(-1)


def test_every_loss_has_a_closed_form_and_its_own_name() -> None:
    cases = {name for module in MODULES.values() for name in import_module(f"tests.losses.{module}").CASES}
    assert cases == set(LOSSES) == {params.name for params in VARIANTS}
    assert all(entry.params.model_fields["name"].default == name for name, entry in LOSSES.items())
    assert all(entry.function.__name__ == name for name, entry in LOSSES.items())


@pytest.mark.parametrize("params", VARIANTS, ids=label)
def test_gradient_weight_equals_the_closed_form_on_a_grid(params: Any) -> None:
    ratios = torch.cat([torch.linspace(0.013, 4, 200), torch.tensor([1e-6, 50.0])]).double()
    deltas = [*ratios.log().tolist(), -25.0, 25.0, -300.0, 300.0]
    for advantage in (-2.0, -0.5, 0.5, 2.0):
        tokens = [(delta, advantage) for delta in deltas]
        _, grad_BT = run(params, tokens)
        torch.testing.assert_close(grad_BT, expected_gradient(params, tokens), rtol=1e-9, atol=1e-300)


@every_loss
@quick
@given(data=st.data(), tokens=rows)
def test_gradient_weight_equals_the_closed_form_for_any_parameters(
    name: str, data: st.DataObject, tokens: list[Row]
) -> None:
    params = data.draw(any_params(name))
    clamp = getattr(params, "log_ratio_clamp", None)  # of exp(0.7) the closed form may take the logarithm for more
    assume(clamp is None or all(abs(abs(delta) - clamp) > 1e-9 for delta, _ in tokens))
    _, grad_BT = run(params, tokens)
    torch.testing.assert_close(grad_BT, expected_gradient(params, tokens), rtol=1e-9, atol=1e-12)


@every_loss
def test_a_ratio_exactly_on_a_bound_is_inside(name: str) -> None:
    low, high = torch.tensor([-0.2, 0.2], dtype=torch.float64).exp().tolist()
    params = with_bounds(name, low, high)
    assert (params.low, params.high) == (low, high)
    tokens = [(-0.2, -1.0), (0.2, 1.0), (-0.2, 1.0), (0.2, -1.0)]
    output, grad_BT = run(params, tokens)
    assert grad_BT.flatten().tolist() == pytest.approx([low, -high, -low, high], rel=1e-15)
    assert not any(mask_BT.any() for mask_BT in output.regions.values())


def test_a_ratio_exactly_at_the_dual_clip_is_inside() -> None:
    bound = float(torch.tensor(1.5, dtype=torch.float64).exp())
    kinds = [entry.params for entry in LOSSES.values() if "dual_clip" in entry.params.model_fields]
    assert len(kinds) >= 6
    for kind in kinds:
        output, grad_BT = run(kind.model_validate({"dual_clip": bound}), [(1.5, -2.0), (1.5000001, -2.0)])
        assert grad_BT.flatten().tolist() == [2 * bound, 0]
        assert output.loss_BT.flatten().tolist() == pytest.approx([2 * bound, 2 * bound])


@every_loss
def test_regions_are_on_the_sides_the_paper_says(name: str) -> None:
    half, twice = float(torch.tensor(0.5).log()), float(torch.tensor(2.0).log())
    tokens = [(half, -1.0), (twice, 1.0), (half, 1.0), (twice, -1.0), (twice, 0.0), (0.0, 1.0)]
    output, _ = run(LOSSES[name].params(epsilon_low=0.2, epsilon_high=0.2, **CASES[name].bare), tokens)
    assert set(output.regions) == set(REGIONS)
    tokens_by_region = {
        region: mask_BT.flatten().nonzero().flatten().tolist() for region, mask_BT in output.regions.items()
    }
    assert tokens_by_region == {"na_lp": [0], "pa_lp": [1], "pa_low": [2], "na_high": [3]}
    assert output.ratio_BT.flatten().tolist() == pytest.approx([0.5, 2, 0.5, 2, 2, 1])
    assert not output.ratio_BT.requires_grad
