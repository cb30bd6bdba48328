"""Every metric against a slow computation, token by token, and that how tokens are handed over does not matter."""

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from tests.unit.trainers.record.step_batches import PARAMS, Step, random_step, rows_of
from tests.unit.trainers.two_processes import ONE_PROCESS, Process, in_both
from trainers.losses import LOSSES, REGIONS, DCPOParams, LossConfig
from trainers.record.metrics import STEP_METRICS
from trainers.record.step_stats import StepStats

LEARNING_RATE = 0.01


def stats_of(*steps: Step) -> dict[str, float | None]:
    stats = StepStats()
    for step in steps:
        step.add_to(stats)
    return stats.reduced(ONE_PROCESS, LEARNING_RATE)


class Token(NamedTuple):
    logprob: float
    old_logprob: float
    advantage: float
    entropy: float
    old_entropy: float
    reference: float
    gradient: float
    ratio: float
    bounds: tuple[float, float]
    correct: bool
    selected: bool

    @property
    def log_ratio(self) -> float:
        return self.logprob - self.old_logprob

    @property
    def part(self) -> str:
        side = -1 if self.ratio < self.bounds[0] else 1 if self.ratio > self.bounds[1] else 0
        sign = (self.advantage > 0) - (self.advantage < 0)
        names = {(-1, -1): "na_lp", (1, 1): "pa_lp", (-1, 1): "pa_low", (1, -1): "na_high"}
        return names.get((side, sign), "inside")

    @property
    def logit_step(self) -> float:
        """Old probability x advantage x weight."""
        return math.exp(self.old_logprob) * -self.gradient

    @property
    def potential(self) -> float:
        factor = {"na_lp": self.bounds[0], "pa_lp": self.bounds[1]}.get(self.part)
        return abs(self.gradient) if factor is None else factor * abs(self.advantage)


def bounds_at(step: Step, b: int, t: int) -> tuple[float, float]:
    """What the ratio of a token is compared with: its own bounds where the loss found some."""
    found = step.objective.output.bounds
    if found is None:
        return step.bounds
    low, high = (bound.expand_as(step.batch.logprobs_BT)[b, t].item() for bound in found)
    return low, high


def tokens_of(steps: Iterable[Step]) -> list[Token]:
    found = list[Token]()
    for step in steps:
        batch, selected_BT = step.batch, step.objective.output.selected_BT
        optional: Any = (batch.entropy_BT, batch.old_entropy_BT, batch.reference_logprobs_BT)
        further: Any = (batch.correct_B, selected_BT)
        correct_B, selected_BT = further
        for b, t in batch.mask_BT.nonzero().tolist():
            per_token = (batch.logprobs_BT, batch.old_logprobs_BT, batch.advantages_BT, *optional)
            of_loss = (step.token_gradient_BT, step.objective.output.ratio_BT)
            values = [tensor[b, t].item() for tensor in (*per_token, *of_loss)]
            found.append(Token(*values, bounds_at(step, b, t), bool(correct_B[b]), bool(selected_BT[b, t])))
    return found


def expected(tokens: list[Token]) -> dict[str, float | None]:
    def mean(values: Iterable[float]) -> float | None:
        kept = list(values)
        return math.fsum(kept) / len(kept) if kept else None

    def total(values: Iterable[float]) -> float:
        return math.fsum(values)

    metrics: dict[str, float | None] = {
        "tokens/step": len(tokens),
        "entropy": mean(t.entropy for t in tokens),
        "entropy/old": mean(t.old_entropy for t in tokens),
        "entropy/correct": mean(t.entropy for t in tokens if t.correct),
        "entropy/incorrect": mean(t.entropy for t in tokens if not t.correct),
        "entropy/top20_mean": mean(sorted(t.entropy for t in tokens)[-math.ceil(len(tokens) / 5) :]),
        "ratio/mean": mean(t.ratio for t in tokens),
        "ratio/max": max((t.ratio for t in tokens), default=None),
        "ratio/min": min((t.ratio for t in tokens), default=None),
        "ppo_kl": mean(-t.log_ratio for t in tokens),
        "kl/k3": mean(math.expm1(t.log_ratio) - t.log_ratio for t in tokens),
        "kl/reference": mean(t.logprob - t.reference for t in tokens),
        "kl/reference_k3": mean(math.exp(t.reference - t.logprob) - 1 - (t.reference - t.logprob) for t in tokens),
        "clip_fraction/low": mean(t.ratio < t.bounds[0] for t in tokens),
        "clip_fraction/high": mean(t.ratio > t.bounds[1] for t in tokens),
        "clip_fraction/dropped": mean(t.advantage != 0 and t.gradient == 0 for t in tokens),
        "share/selected": mean(t.selected for t in tokens),
        "weight/potential": mean(t.potential for t in tokens),
        "ratio_share/below_0.5": mean(t.ratio < 0.5 for t in tokens),
        "ratio_share/0.5_to_0.8": mean(0.5 <= t.ratio < 0.8 for t in tokens),
        "ratio_share/0.8_to_0.95": mean(0.8 <= t.ratio < 0.95 for t in tokens),
        "ratio_share/0.95_to_1.05": mean(0.95 <= t.ratio < 1.05 for t in tokens),
        "ratio_share/1.05_to_1.25": mean(1.05 <= t.ratio < 1.25 for t in tokens),
        "ratio_share/1.25_to_2": mean(1.25 <= t.ratio < 2 for t in tokens),
        "ratio_share/above_2": mean(t.ratio >= 2 for t in tokens),
    }
    for percent in (10, 50, 90, 99):
        entropies = [t.entropy for t in tokens]
        metrics[f"entropy/p{percent}"] = float(np.percentile(entropies, percent)) if tokens else None
    weight, potential = total(abs(t.gradient) for t in tokens), total(t.potential for t in tokens)
    betas = total(t.potential for t in tokens if t.part in ("na_lp", "pa_lp"))
    metrics["weight_share/potential"] = betas / potential if potential else None
    centre = [mean(t.logprob for t in tokens) or 0, mean(t.logit_step for t in tokens) or 0]
    for part in (*REGIONS, "inside"):
        inside = [t for t in tokens if t.part == part]
        metrics[f"weight_share/{part}"] = total(abs(t.gradient) for t in inside) / weight if weight else None
        metrics[f"old_probability/{part}"] = mean(math.exp(t.old_logprob) for t in inside)
        products = [(t.logprob - centre[0]) * (t.logit_step - centre[1]) for t in inside]
        change = -LEARNING_RATE * total(products) / len(tokens) if tokens else None
        metrics[f"entropy_change/predicted_{part}"] = change
    for region in REGIONS:
        metrics[f"share/{region}"] = mean(t.part == region for t in tokens)
        metrics[f"entropy/{region}"] = mean(t.entropy for t in tokens if t.part == region)
    if tokens:
        covariance = np.cov([t.logprob for t in tokens], [t.logit_step for t in tokens], ddof=0)[0, 1]
        metrics["entropy_change/predicted"] = -LEARNING_RATE * float(covariance)
    else:
        metrics["entropy_change/predicted"] = None
    return metrics


def assert_agree(metrics: dict[str, float | None], reference: dict[str, float | None]) -> None:
    assert {name for name in metrics if not name.startswith("loss")} == reference.keys()
    for name, value in reference.items():
        assert metrics[name] == (None if value is None else pytest.approx(value, rel=1e-9, abs=1e-13)), name


STEPS = {
    **{f"{name} {seed}": (seed, {"params": LOSSES[name].params()}) for name in LOSSES for seed in range(3)},
    **{f"steep {seed}": (seed, {}) for seed in range(3)},
    "no tokens": (0, {"valid": 0.0}),
    "one token": (next(n for n in range(99) if random_step(n, valid=0.02).batch.mask_BT.sum() == 1), {"valid": 0.02}),
    "every ratio is 1": (0, {"spread": 0.0}),
}
"""Seeds of random steps, and what is special about them."""


@pytest.mark.parametrize("step", STEPS)
def test_every_metric_is_what_a_loop_over_tokens_gives(step: str) -> None:
    seed, special = STEPS[step]
    made = random_step(seed, **special)
    assert_agree(stats_of(made), expected(tokens_of([made])))


def test_the_batches_above_have_tokens_in_every_region() -> None:
    assert {token.part for token in tokens_of(map(random_step, range(3)))} == {*REGIONS, "inside"}


@pytest.mark.parametrize("params", [PARAMS, DCPOParams()], ids=["steep", "dcpo"])
def test_device_batches_of_unequal_length_add_up_to_the_whole(params: LossConfig) -> None:
    whole = random_step(7, rows=9, params=params)
    parts = [rows_of(whole, 0, 1), rows_of(whole, 1, 6), rows_of(whole, 6, 9)]
    added = stats_of(*parts)
    assert added == pytest.approx(stats_of(whole), rel=1e-12)
    assert_agree(added, expected(tokens_of(parts)))
    means = [stats_of(part)["entropy"] for part in parts]
    assert added["entropy"] != pytest.approx(sum(filter(None, means)) / 3, rel=1e-3)


def test_two_processes_give_the_metrics_of_all_tokens() -> None:
    """Gradients are averaged over processes, so each one's loss is the mean's half; other metrics are of all tokens."""
    whole = random_step(7, rows=9)
    parts = [rows_of(whole, 0, 3), rows_of(whole, 3, 9)]

    def of_process(process: Process) -> dict[str, float | None]:
        stats = StepStats()
        parts[process.process_index].add_to(stats)
        return stats.reduced(process, LEARNING_RATE)

    together, alone = in_both(of_process), stats_of(whole)
    losses = {name: value / 2 for name in alone if name.split("/")[0] == "loss" and (value := alone[name]) is not None}
    assert len(losses) == 7
    assert together == [pytest.approx(alone | losses, rel=1e-12)] * 2


def test_padding_counts_nowhere_whatever_stands_there() -> None:
    step = random_step(3)
    assert not bool(step.batch.mask_BT[1].any())  # a completion without tokens
    assert stats_of(random_step(3, padding=math.nan)) == stats_of(random_step(3, padding=1e30)) == stats_of(step)


def test_what_the_trainer_did_not_hand_over_is_none_under_the_same_names() -> None:
    bare = random_step(5, optional=False)
    metrics = stats_of(bare)
    assert metrics.keys() == stats_of(random_step(5)).keys() <= STEP_METRICS.keys()
    missing = {name for name, value in metrics.items() if value is None}
    entropies = {name for name in metrics if name.split("/")[0] == "entropy"}
    assert missing == entropies | {"share/selected", "loss/penalty", "loss/entropy", "loss/positive_nll"} | {
        "loss/kl",
        "loss/value",
        "kl/reference",
        "kl/reference_k3",
    }


def test_losses_of_device_batches_are_added() -> None:
    steps = [random_step(seed) for seed in (1, 2)]
    metrics = stats_of(*steps)
    parts = [step.objective._asdict() for step in steps]
    for name in ("loss", "policy_loss", "penalty", "entropy", "positive_nll", "kl", "value_loss"):
        key = {"loss": "loss", "policy_loss": "loss/policy", "value_loss": "loss/value"}.get(name, f"loss/{name}")
        assert metrics[key] == pytest.approx(sum(part[name].item() for part in parts), rel=1e-12), name


def test_k3_keeps_its_digits_where_the_policy_hardly_moved() -> None:
    """In float32 r - 1 - log r is 0 or noise for log-ratios of 1e-5; its value is half their square."""
    step = random_step(0, spread=1e-5, dtype=torch.float32)
    log_ratio = (step.batch.logprobs_BT.detach().double() - step.batch.old_logprobs_BT)[step.batch.mask_BT]
    assert stats_of(step)["kl/k3"] == pytest.approx(log_ratio.square().mean().item() / 2, rel=1e-3)


def test_a_value_that_is_not_finite_is_none_and_spoils_no_other() -> None:
    step = random_step(1)
    assert step.batch.entropy_BT is not None
    row, column = step.batch.mask_BT.nonzero()[0].tolist()
    step.batch.entropy_BT[row, column] = math.nan
    metrics, whole = stats_of(step), stats_of(random_step(1))
    assert metrics["entropy"] is None
    assert {n: v for n, v in metrics.items() if "entropy" not in n} == {
        n: v for n, v in whole.items() if "entropy" not in n
    }


def test_collecting_starts_anew_after_each_step() -> None:
    stats, (first, second) = StepStats(), (random_step(seed) for seed in (1, 2))
    first.add_to(stats)
    stats.reduced(ONE_PROCESS, LEARNING_RATE)
    second.add_to(stats)
    assert stats.reduced(ONE_PROCESS, LEARNING_RATE) == stats_of(second)
    with pytest.raises(AssertionError, match="no device batch"):
        stats.reduced(ONE_PROCESS, LEARNING_RATE)


def test_a_ratio_on_a_bound_or_on_an_edge_of_the_histogram_is_not_below_it() -> None:
    step = random_step(0)

    def with_ratio(ratio: float) -> dict[str, float | None]:
        output = replace(step.objective.output, ratio_BT=torch.full_like(step.objective.output.ratio_BT, ratio))
        return stats_of(step._replace(objective=step.objective._replace(output=output), bounds=(0.5, 0.5)))

    on, below = with_ratio(0.5), with_ratio(math.nextafter(0.5, 0))
    assert (on["clip_fraction/low"], on["clip_fraction/high"], on["ratio_share/below_0.5"]) == (0, 0, 0)
    assert (below["clip_fraction/low"], below["clip_fraction/high"], below["ratio_share/below_0.5"]) == (1, 0, 1)
    assert with_ratio(math.nextafter(0.5, 1))["clip_fraction/high"] == 1


def test_zero_has_no_sign() -> None:
    """Where every ratio is 1, the mean of -log r is -0.0."""
    kl = stats_of(random_step(0, spread=0.0))["ppo_kl"]
    assert kl is not None
    assert math.copysign(1, kl) == 1
