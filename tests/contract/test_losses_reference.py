"""The losses against numbers computed by the official code of PPO-clip, DAPO, GPPO and CE-GPPO."""

import json
import runpy
from pathlib import Path
from typing import Any

import pytest
import torch

HERE = Path(__file__).parent
CASES: list[dict[str, Any]] = json.loads((HERE / "data" / "loss_vectors.json").read_text())["cases"]
solve = runpy.run_path(str(HERE / "reference_vectors.py"))["solve"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_loss_and_gradient_equal_the_official_ones(case: dict[str, Any]) -> None:
    result = solve({key: value for key, value in case.items() if key != "expected"})
    want_BT = torch.tensor(case["expected"]["grad"], dtype=torch.float64)
    got_BT = torch.tensor(result["grad"], dtype=torch.float64)
    torch.testing.assert_close(got_BT, want_BT, rtol=1e-9, atol=1e-12 * float(want_BT.abs().max()))
    assert result["loss"] == pytest.approx(case["expected"]["loss"], rel=1e-9, abs=1e-12)


def test_every_algorithm_and_awkward_input_is_among_the_cases() -> None:
    assert {case["algo"] for case in CASES} == {"ppo_clip", "dapo", "gppo", "ce_gppo"}
    tags = {tag for case in CASES for tag in case["tags"]}
    assert tags >= {"boundary", "empty_rows", "holes", "extreme", "log_ratio_clamp", "all_masked_batch", "no_dual_clip"}


def test_an_unknown_algorithm_is_not_answered() -> None:
    with pytest.raises(NotImplementedError, match="cispo is not in LOSSES"):
        solve({"algo": "cispo"})
