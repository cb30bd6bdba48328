"""Random device batches with everything that statistics read, some of it in every region."""

from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from trainers.losses import CEGPPOParams, LossConfig, Objective, TokenBatch, policy_loss, token_mean
from trainers.losses.base import Bounds
from trainers.record.step_stats import StepStats

PARAMS = CEGPPOParams(epsilon=0.2, beta1=0.5, beta2=0.0, dual_clip=1.5)
"""With a region that is scaled, one that is dropped, and tokens past the dual clip."""


class Step(NamedTuple):
    """What `StepStats.add` takes."""

    batch: TokenBatch
    objective: Objective
    token_gradient_BT: Tensor
    bounds: tuple[float, float]

    def add_to(self, stats: StepStats) -> None:
        stats.add(self.batch, self.objective, self.token_gradient_BT, bounds=self.bounds)


def random_step(
    seed: int,
    *,
    rows: int = 6,
    valid: float = 0.7,
    spread: float = 0.4,
    padding: float = 0.0,
    optional: bool = True,
    params: LossConfig = PARAMS,
    dtype: torch.dtype = torch.float64,
) -> Step:
    """Make (rows, 11) tokens; row 1 has none, row 2 no advantage.

    Args:
        valid: share of tokens that are no padding.
        spread: standard deviation of log-ratios, nats.
        padding: what stands at padding.
        optional: whether entropies, a reference, correctness, selected tokens and further loss terms are there.
    """
    made = torch.Generator().manual_seed(seed)
    shape = (rows, 11)

    def normal() -> Tensor:
        return torch.randn(shape, generator=made, dtype=dtype)

    mask_BT = torch.rand(shape, generator=made) < valid
    mask_BT[1:2] = False
    logprobs_BT = normal() - 2
    old_logprobs_BT = logprobs_BT + spread * normal()
    advantages_BT = normal()[:, :1].expand(shape).clone()
    advantages_BT[2:3] = 0
    tensors = [logprobs_BT, old_logprobs_BT, advantages_BT, normal().abs(), normal().abs()]
    logprobs_BT, old_logprobs_BT, advantages_BT, entropy_BT, old_entropy_BT = (
        tensor.masked_fill(~mask_BT, padding) for tensor in tensors
    )
    correct_B, selected_BT = torch.rand(rows, generator=made) < 0.5, torch.rand(shape, generator=made) < 0.3
    logprobs_BT.requires_grad_()
    batch = TokenBatch(logprobs_BT, old_logprobs_BT, advantages_BT, mask_BT)
    if optional:
        extra = {"entropy_BT": entropy_BT, "old_entropy_BT": old_entropy_BT, "correct_B": correct_B}
        reference_BT = (logprobs_BT.detach() + spread * entropy_BT.sin()).masked_fill(~mask_BT, padding)
        extra["reference_logprobs_BT"] = reference_BT
        batch = TokenBatch(logprobs_BT, old_logprobs_BT, advantages_BT, mask_BT, **extra)
    output = policy_loss(batch, params)
    if optional:
        output = replace(output, selected_BT=selected_BT, penalty=None)
    (token_gradient_BT,) = torch.autograd.grad(output.loss_BT.sum(), logprobs_BT, retain_graph=True)
    loss = token_mean(output.loss_BT, mask_BT)
    objective = Objective(loss, loss.detach() / 2, output)
    if optional:
        names = ("penalty", "entropy", "positive_nll", "kl", "value_loss")
        objective = objective._replace(**dict(zip(names, normal()[0], strict=False)))
    return Step(batch, objective, token_gradient_BT, (params.low, params.high))


def rows_of(step: Step, start: int, end: int) -> Step:
    """Some rows as a device batch of their own; the whole loss goes to the first."""
    batch, objective, output = step.batch, step.objective, step.objective.output
    optional = {
        name: getattr(batch, name)[start:end]
        for name in ("entropy_BT", "old_entropy_BT", "correct_B", "reference_logprobs_BT")
        if getattr(batch, name) is not None
    }
    whole = (batch.logprobs_BT, batch.old_logprobs_BT, batch.advantages_BT, batch.mask_BT)
    shape = output.loss_BT.shape
    part = type(output)(
        output.loss_BT[start:end],
        {region: mask_BT[start:end] for region, mask_BT in output.regions.items()},
        output.ratio_BT[start:end],
        None if output.selected_BT is None else output.selected_BT[start:end],
        bounds=output.bounds and Bounds(*(bound.expand(shape)[start:end] for bound in output.bounds)),
    )
    losses = {name: value * (start == 0) for name, value in objective._asdict().items() if isinstance(value, Tensor)}
    return Step(
        TokenBatch(*(tensor[start:end] for tensor in whole), **optional),
        objective._replace(output=part, **losses),
        step.token_gradient_BT[start:end],
        step.bounds,
    )
