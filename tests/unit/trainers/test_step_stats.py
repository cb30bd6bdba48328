import pytest
import torch
from torch import Tensor

from trainers.losses import CEGPPOParams, TokenBatch, ce_gppo
from trainers.metrics import STEP_METRICS
from trainers.step_stats import StepStats

PARAMS = CEGPPOParams(epsilon_low=0.2, epsilon_high=0.2)


class OneProcess:
    def reduce(self, tensor: Tensor, reduction: str) -> Tensor:
        return tensor

    def gather(self, tensor: Tensor) -> Tensor:
        return tensor


def batch_of(ratios: list[list[float]], advantages: list[list[float]], mask: list[list[int]]) -> TokenBatch:
    logprobs_BT = torch.tensor(ratios, dtype=torch.float64).log().requires_grad_()
    return TokenBatch(logprobs_BT, torch.zeros_like(logprobs_BT), torch.tensor(advantages).double(), torch.tensor(mask))


def stats_of(*batches: tuple[TokenBatch, Tensor]) -> dict[str, float | None]:
    stats = StepStats()
    for batch, entropy_BT in batches:
        stats.add(batch, ce_gppo(batch, PARAMS), entropy_BT, PARAMS)
    return stats.reduced(OneProcess())


def test_shares_and_entropies_count_valid_tokens_only() -> None:
    batch = batch_of([[0.5, 1.0, 1.5], [0.5, 1.5, 9.0]], [[-1, -1, -1], [1, 1, 1]], [[1, 1, 1], [1, 1, 0]])
    metrics = stats_of((batch, torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, torch.nan]])))
    assert metrics["tokens/step"] == 5
    assert metrics["entropy"] == 3.0
    assert metrics["ratio/mean"] == pytest.approx(1.0)
    assert metrics["ratio/max"] == pytest.approx(1.5)
    for region, entropy in {"na_lp": 1.0, "na_high": 3.0, "pa_low": 4.0, "pa_lp": 5.0}.items():
        assert metrics[f"share/{region}"] == 0.2
        assert metrics[f"entropy/{region}"] == entropy
    assert metrics["clip_fraction/low"] == metrics["clip_fraction/high"] == 0.4


def test_a_region_without_tokens_has_share_zero_and_no_entropy() -> None:
    metrics = stats_of((batch_of([[1.0]], [[1.0]], [[1]]), torch.ones(1, 1)))
    assert metrics["share/na_lp"] == 0.0
    assert metrics["entropy/na_lp"] is None
    assert set(metrics) <= set(STEP_METRICS)


def test_device_batches_of_unequal_length_add_up_to_the_whole() -> None:
    """The mean of the two batches' means is another number: (1 + 3.5) / 2."""
    ratios, advantages, mask = [[0.5, 1.5, 1.0], [1.1, 0.7, 1.3]], [[-1.0] * 3, [1.0] * 3], [[1, 0, 0], [1, 1, 1]]
    entropy_BT = torch.tensor([[1.0, 0.0, 0.0], [2.0, 4.0, 4.5]])
    parts = [
        (batch_of(ratios[i : i + 1], advantages[i : i + 1], mask[i : i + 1]), entropy_BT[i : i + 1]) for i in (0, 1)
    ]
    accumulated, whole = stats_of(*parts), stats_of((batch_of(ratios, advantages, mask), entropy_BT))
    assert accumulated == pytest.approx(whole)
    assert accumulated["entropy"] == pytest.approx((1 + 2 + 4 + 4.5) / 4)
