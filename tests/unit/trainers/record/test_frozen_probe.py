import math
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
from torch import Tensor

from trainers.record.frozen_probe import Forward, Probe

PROMPTS, COMPLETIONS = [[5, 6], [7], [5]], [[1, 2, 3], [4, 4], [9]]


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


def test_rows_are_padded_towards_each_other() -> None:
    rows = Probe.frozen(PROMPTS, COMPLETIONS, 0, policy(-1, 1)).rows
    assert rows["prompt_ids"].tolist() == [[5, 6], [0, 7], [0, 5]]
    assert rows["prompt_mask"].tolist() == [[1, 1], [0, 1], [0, 1]]
    assert rows["completion_ids"].tolist() == [[1, 2, 3], [4, 4, 0], [9, 0, 0]]
    assert rows["completion_mask"].tolist() == [[1, 1, 1], [1, 1, 0], [1, 0, 0]]


def test_the_initial_policy_is_at_no_distance_from_itself() -> None:
    assert Probe.frozen(PROMPTS, COMPLETIONS, 0, varied).measure(varied) == {
        "probe/entropy": pytest.approx((1 + 2 + 3 + 4 + 4 + 9) / 6),
        "probe/kl_from_initial": 0,
        "probe/kl_from_initial_k3": 0,
    }


def test_distance_is_initial_minus_present_over_tokens_and_not_padding() -> None:
    probe = Probe.frozen(PROMPTS, COMPLETIONS, 0, policy(-1.0, 2.0))
    metrics = probe.measure(policy(-1.5, 0.7))
    assert metrics["probe/entropy"] == pytest.approx(0.7)
    assert metrics["probe/kl_from_initial"] == pytest.approx(0.5)
    assert metrics["probe/kl_from_initial_k3"] == pytest.approx(math.exp(-0.5) - 1 + 0.5)


def test_estimates_average_to_the_divergence_over_samples_of_the_initial_policy() -> None:
    """Ten tokens drawn exactly as often as the initial policy would have: 7 of one kind, 3 of the other."""
    initial, present = torch.tensor([0.7, 0.3]).double(), torch.tensor([0.4, 0.6]).double()
    divergence = (initial * (initial / present).log()).sum().item()
    probe = Probe.frozen([[0]], [[0] * 7 + [1] * 3], 0, lambda rows: (initial.log()[rows["completion_ids"]],) * 2)
    metrics = probe.measure(lambda rows: (present.log()[rows["completion_ids"]],) * 2)
    assert metrics["probe/kl_from_initial"] == pytest.approx(divergence)
    assert metrics["probe/kl_from_initial_k3"] == pytest.approx(divergence)


def test_a_saved_probe_measures_the_same(tmp_path: Path) -> None:
    probe = Probe.frozen(PROMPTS, COMPLETIONS, 0, varied)
    probe.save(tmp_path / "probe.pt")
    loaded = Probe.load(tmp_path / "probe.pt")
    assert loaded.measure(policy(-2.0, 1.0)) == probe.measure(policy(-2.0, 1.0))
    assert vars(loaded).keys() == vars(probe).keys()


def test_measuring_builds_no_graph() -> None:
    weight = torch.ones((), requires_grad=True)
    seen = list[bool]()

    def forward(rows: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        logprobs_BT = weight * varied(rows)[0]
        seen.append(logprobs_BT.requires_grad)
        return logprobs_BT, logprobs_BT

    Probe.frozen(PROMPTS, COMPLETIONS, 0, forward).measure(forward)
    assert seen == [False, False]
