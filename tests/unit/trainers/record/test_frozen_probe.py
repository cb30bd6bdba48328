import math
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
from torch import Tensor

from trainers.record.frozen_probe import FrozenCompletions
from trainers.rollouts.logprob_check import Forward

SAMPLED = ([[5, 6], [7], [5]], [[1, 2, 3], [4, 4], [9]])


def policy(logprob: float, entropy: float) -> Forward:
    """A policy with one log-probability and entropy for every token, and garbage at padding."""

    def forward(rows: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        padding_BT = rows["completion_mask"] == 0
        values_BT = torch.ones(padding_BT.shape).masked_fill(padding_BT, math.nan)
        return logprob * values_BT, entropy * values_BT

    return forward


def varied(rows: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
    """A policy whose values depend on the token, so that every token has to be in its place."""
    ids_BT = rows["completion_ids"].double()
    return -ids_BT / 10 - rows["prompt_ids"].sum(1, keepdim=True) / 100, ids_BT


def frozen(sampled: tuple[list[list[int]], list[list[int]]], forward: Forward) -> FrozenCompletions:
    completions = FrozenCompletions()
    completions.freeze(*sampled, 0, forward)
    assert set(completions.take().values()) == {None}
    return completions


def measured(completions: FrozenCompletions, forward: Forward) -> dict[str, float | None]:
    completions.measure(forward)
    return completions.take()


def test_rows_are_padded_towards_each_other() -> None:
    rows = frozen(SAMPLED, policy(-1, 1)).rows
    assert rows["prompt_ids"].tolist() == [[5, 6], [0, 7], [0, 5]]
    assert rows["prompt_mask"].tolist() == [[1, 1], [0, 1], [0, 1]]
    assert rows["completion_ids"].tolist() == [[1, 2, 3], [4, 4, 0], [9, 0, 0]]
    assert rows["completion_mask"].tolist() == [[1, 1, 1], [1, 1, 0], [1, 0, 0]]


def test_the_initial_policy_is_at_no_distance_from_itself() -> None:
    assert measured(frozen(SAMPLED, varied), varied) == {
        "probe/entropy": pytest.approx((1 + 2 + 3 + 4 + 4 + 9) / 6),
        "entropy_change/measured": 0,
        "probe/kl_from_initial": 0,
        "probe/kl_from_initial_k3": 0,
    }


def test_distance_is_initial_minus_present_over_tokens_and_not_padding() -> None:
    metrics = measured(frozen(SAMPLED, policy(-1.0, 2.0)), policy(-1.5, 0.7))
    assert metrics["probe/entropy"] == pytest.approx(0.7)
    assert metrics["entropy_change/measured"] == pytest.approx(0.7 - 2.0)
    assert metrics["probe/kl_from_initial"] == pytest.approx(0.5)
    assert metrics["probe/kl_from_initial_k3"] == pytest.approx(math.exp(-0.5) - 1 + 0.5)


def test_saved_completions_measure_the_same(tmp_path: Path) -> None:
    completions, loaded = frozen(SAMPLED, varied), FrozenCompletions()
    completions.save(tmp_path)
    loaded.load(tmp_path)
    loaded.state |= completions.state
    assert torch.load(tmp_path / "probe.pt", weights_only=True).keys() == {"rows", "initial_logprobs_BT"}
    assert measured(loaded, policy(-2.0, 1.0)) == measured(completions, policy(-2.0, 1.0))


def test_without_completions_nothing_is_measured_or_saved(tmp_path: Path) -> None:
    completions = FrozenCompletions()
    assert set(measured(completions, varied).values()) == {None}
    completions.save(tmp_path)
    completions.load(tmp_path)
    assert not list(tmp_path.iterdir())


def test_measuring_builds_no_graph() -> None:
    weight = torch.ones((), requires_grad=True)
    seen = list[bool]()

    def forward(rows: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        logprobs_BT = weight * varied(rows)[0]
        seen.append(logprobs_BT.requires_grad)
        return logprobs_BT, logprobs_BT

    frozen(SAMPLED, forward).measure(forward)
    assert seen == [False, False, False]
