"""Weights for what another engine sampled; that they enter every loss once is in the contract of losses."""

from math import exp, nan

import torch

from trainers.losses import truncated_weights


def test_a_weight_is_the_ratio_up_to_the_cap() -> None:
    trainer = torch.tensor([[-1.0, -2.0, -3.0, -1.0, -50.0, -0.5]])
    engine = torch.tensor([[-1.5, -2.5, -2.0, -9.0, -0.1, nan]])
    weights = truncated_weights(trainer, engine, 2.0)
    expected = [min(exp(t - e), 2.0) for t, e in zip(trainer[0].tolist(), engine[0].tolist(), strict=True)]
    torch.testing.assert_close(weights, torch.tensor([[*expected[:-1], 1.0]]))
