"""Losses and advantages against numbers computed by official code, over all cases that we have."""

import json
import runpy
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.losses.all_cases import CASES
from trainers.losses import LOSSES

HERE = Path(__file__).parent


def cases(name: str) -> list[dict[str, Any]]:
    return json.loads((HERE / "data" / name).read_text())["cases"]


LOSS_CASES, ADVANTAGE_CASES = cases("loss_vectors.json"), cases("advantage_vectors.json")
adapters = runpy.run_path(str(HERE / "reference_vectors.py"))
solve, solve_advantages = adapters["solve"], adapters["solve_advantages"]


@pytest.mark.parametrize("case", LOSS_CASES, ids=lambda case: case["id"])
def test_loss_and_gradients_equal_the_official_ones(case: dict[str, Any]) -> None:
    result = solve({key: value for key, value in case.items() if key != "expected"})
    expected = case["expected"]
    assert result["loss"] == pytest.approx(expected["loss"], rel=1e-9, abs=1e-12)
    for name in {"grad", "grad_entropy"} & set(expected):
        want_BT = torch.tensor(expected[name], dtype=torch.float64)
        got_BT = torch.tensor(result[name], dtype=torch.float64)
        torch.testing.assert_close(got_BT, want_BT, rtol=1e-9, atol=1e-12 * float(want_BT.abs().max()))


@pytest.mark.parametrize("case", ADVANTAGE_CASES, ids=lambda case: case["id"])
def test_advantages_equal_the_official_ones(case: dict[str, Any]) -> None:
    want_BT = torch.tensor(case["expected"]["advantages"], dtype=torch.float64)
    got_BT = torch.tensor(solve_advantages(case)["advantages"], dtype=torch.float64)
    torch.testing.assert_close(got_BT, want_BT, rtol=case["rtol"], atol=1e-12)


def test_every_algorithm_and_awkward_input_is_among_the_cases() -> None:
    of_losses = {official: number for case in CASES.values() for official, number in case.official.items()}
    assert Counter(case["algo"] for case in LOSS_CASES) == of_losses | {"entropy_bonus": 2, "positive_nll": 2}
    assert len(ADVANTAGE_CASES) == 24
    assert set(adapters["LOSS_OF"].values()) == set(LOSSES)
    tags = {tag for case in LOSS_CASES for tag in case["tags"]}
    assert tags >= {"boundary", "empty_rows", "holes", "extreme", "log_ratio_clamp", "all_masked_batch", "no_dual_clip"}
    assert tags >= {"boundary_token", "token_adv", "all_zero_adv", "random_selection", "composed"}
