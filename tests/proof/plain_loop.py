"""The trainer's updates written down a second time, as plainly as possible. Nothing here comes from `trainers`.

Log-probabilities and entropies are a log-softmax over all logits; clipping and AdamW are spelled out. Shapes:
B sequences, P prompt tokens, T completion tokens, V vocabulary, H hidden.
"""

import copy
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from tests.proof.plain_losses import Rule, assert_selection, batch_losses, divergences, value_errors


@dataclass(frozen=True)
class Optimization:
    learning_rate: float
    warmup_steps: int
    betas: tuple[float, float]
    epsilon: float
    weight_decay: float
    largest_norm: float
    temperature: float


class DeviceBatch(NamedTuple):
    """A part of an update. `selected_BT` is what a covariance loss singled out, `reference_BT` log-probabilities.

    With a critic advantages are (B, T), and old values and their targets are there.
    """

    prompt_ids_BP: Tensor
    prompt_mask_BP: Tensor
    completion_ids_BT: Tensor
    mask_BT: Tensor
    old_logprobs_BT: Tensor
    old_entropy_BT: Tensor
    advantages_BT: Tensor
    correct_B: Tensor
    active_B: Tensor
    selected_BT: Tensor | None
    reference_BT: Tensor | None = None
    old_values_BT: Tensor | None = None
    returns_BT: Tensor | None = None


class Update(NamedTuple):
    loss: float
    outside: Counter[str]


def scored(model: Any, batch: DeviceBatch, temperature: float) -> tuple[Tensor, Tensor]:
    """Log-probabilities of the completion tokens and entropies at their positions, (B, T), in nats."""
    ids_BS = torch.cat([batch.prompt_ids_BP, batch.completion_ids_BT], dim=1)
    attention_BS = torch.cat([batch.prompt_mask_BP, batch.mask_BT], dim=1)
    logits_BSV = model(input_ids=ids_BS, attention_mask=attention_BS).logits
    first = batch.prompt_ids_BP.shape[1] - 1
    logprobs_BTV = torch.log_softmax(logits_BSV[:, first:-1] / temperature, dim=-1)
    logprobs_BT = logprobs_BTV.gather(-1, batch.completion_ids_BT.unsqueeze(-1)).squeeze(-1)
    return logprobs_BT, -(logprobs_BTV.exp() * logprobs_BTV).sum(-1)


class Head(NamedTuple):
    """A critic's value head."""

    weight_1H: Tensor
    bias_1: Tensor


def new_head(hidden: int) -> Head:
    return Head(*(torch.zeros(shape, dtype=torch.float64, requires_grad=True) for shape in ((1, hidden), (1,))))


def valued(model: Any, head: Head, batch: DeviceBatch) -> Tensor:
    """Values before each completion token, (B, T)."""
    ids_BS = torch.cat([batch.prompt_ids_BP, batch.completion_ids_BT], dim=1)
    attention_BS = torch.cat([batch.prompt_mask_BP, batch.mask_BT], dim=1)
    output = model(input_ids=ids_BS, attention_mask=attention_BS, output_hidden_states=True)
    hidden_BTH = output.hidden_states[-1][:, batch.prompt_ids_BP.shape[1] - 1 : -1]
    return (hidden_BTH * head.weight_1H).sum(-1) + head.bias_1


class Denominators(NamedTuple):
    """Of one update: a rollout's numbers shared out evenly over its updates, as TRL does."""

    all_rows: float
    correct_rows: float


def counted(rule: Rule, batch: DeviceBatch) -> Tensor:
    """The tokens that count, (B, T), bool."""
    mask_BT = batch.mask_BT.bool()
    return mask_BT & batch.active_B.unsqueeze(1) if rule.only_active else mask_BT


def denominators(rule: Rule, rollout: "Rollout") -> Denominators:
    sizes = [0, 0]
    for batch in [batch for update in rollout for batch in update]:
        for place, rows_B in enumerate((torch.ones_like(batch.correct_B), batch.correct_B)):
            tokens_B = (counted(rule, batch) & rows_B.unsqueeze(1)).sum(-1)
            sizes[place] += int((tokens_B > 0).sum() if rule.per_sequence else tokens_B.sum())
    return Denominators(*(max(size, 1) / len(rollout) for size in sizes))


def mean(rule: Rule, values_BT: Tensor, mask_BT: Tensor, by: float) -> Tensor:
    """A device batch's share of an update's mean."""
    weights_BT = mask_BT.double()
    if rule.per_sequence:
        weights_BT = weights_BT / weights_BT.sum(-1, keepdim=True).clamp(min=1)
    return (values_BT * weights_BT).sum() / by


class Objective(NamedTuple):
    loss: float
    to_differentiate: Tensor
    """Something with the loss's gradient by log-probabilities and entropies."""
    outside: Counter[str]


def objective(rule: Rule, batch: DeviceBatch, logprobs_BT: Tensor, entropy_BT: Tensor, by: Denominators) -> Objective:
    """A device batch's part of an update's loss."""
    mask_BT = counted(rule, batch)
    tokens = (logprobs_BT.detach(), batch.old_logprobs_BT, batch.advantages_BT, mask_BT)
    if batch.selected_BT is not None:
        assert_selection(rule, *tokens, batch.selected_BT)
    losses = batch_losses(rule, *tokens, entropy_BT.detach(), batch.old_entropy_BT, batch.selected_BT)
    right_BT = mask_BT & batch.correct_B.unsqueeze(1)
    terms = -rule.positive_nll * mean(rule, logprobs_BT, right_BT, by.correct_rows)
    terms = terms - rule.entropy_bonus * mean(rule, entropy_BT, mask_BT, by.all_rows)
    values_BT, gradients_BT = losses.values_BT, losses.gradients_BT
    if rule.kl:
        assert batch.reference_BT is not None
        value_BT, slope_BT = divergences(rule, logprobs_BT.detach(), batch.reference_BT, mask_BT)
        values_BT, gradients_BT = values_BT + rule.kl * value_BT, gradients_BT + rule.kl * slope_BT
    return Objective(
        loss=(mean(rule, values_BT, mask_BT, by.all_rows) + terms).item(),
        to_differentiate=mean(rule, gradients_BT * logprobs_BT, mask_BT, by.all_rows) + terms,
        outside=losses.outside,
    )


def differentiate_values(model: Any, head: Head, rule: Rule, batch: DeviceBatch, by: Denominators) -> float:
    """Add the gradient of a device batch's value loss to the parameters; return its part of the loss."""
    assert rule.values is not None
    values_BT, mask_BT = valued(model, head, batch), counted(rule, batch)
    losses_BT, slopes_BT = value_errors(rule.values, values_BT.detach(), batch, mask_BT)
    (rule.values.coefficient * mean(rule, slopes_BT * values_BT, mask_BT, by.all_rows)).backward()
    return rule.values.coefficient * mean(rule, losses_BT, mask_BT, by.all_rows).item()


def differentiate(
    model: Any,
    initial: Any,
    head: Head | None,
    rule: Rule,
    update: Sequence[DeviceBatch],
    by: Denominators,
    temperature: float,
) -> Update:
    """Add the gradient of an update's loss to the parameters. `initial` is the model before the first update."""
    loss, outside = 0.0, Counter[str]()
    for given in update:
        batch = given
        if rule.kl:
            with torch.no_grad():
                batch = batch._replace(reference_BT=scored(initial, batch, temperature)[0])
        part = objective(rule, batch, *scored(model, batch, temperature), by)
        part.to_differentiate.backward()
        loss += part.loss
        outside += part.outside
        if head is not None:
            loss += differentiate_values(model, head, rule, batch, by)
    return Update(loss, outside)


Rollout = Sequence[Sequence[DeviceBatch]]
"""The updates of a rollout, each in device batches."""


class AdamW:
    """Updates parameters in place by their gradients, whose norm it cuts first."""

    def __init__(self, parameters: Sequence[Tensor], how: Optimization) -> None:
        self.parameters, self.how, self.steps = parameters, how, 0
        self.moments = [(torch.zeros_like(each), torch.zeros_like(each)) for each in parameters]

    @torch.no_grad()
    def step(self, rate: float) -> None:
        how, gradients = self.how, [each.grad for each in self.parameters]
        self.steps += 1
        norm = math.sqrt(sum(gradient.square().sum().item() for gradient in gradients if gradient is not None))
        scale = min(1.0, how.largest_norm / (norm + 1e-6))
        for parameter, given, (first, second) in zip(self.parameters, gradients, self.moments, strict=True):
            assert given is not None
            gradient = given * scale
            first.mul_(how.betas[0]).add_((1 - how.betas[0]) * gradient)
            second.mul_(how.betas[1]).add_((1 - how.betas[1]) * gradient.square())
            mean = first / (1 - how.betas[0] ** self.steps)
            deviation = (second / (1 - how.betas[1] ** self.steps)).sqrt()
            if parameter.dim() > 1:  # norms and biases do not decay
                parameter.mul_(1 - rate * how.weight_decay)
            parameter.sub_(rate * mean / (deviation + how.epsilon))
            given.zero_()


def train(
    model: Any,
    rule_after: Callable[[int], Rule],
    rollouts: Sequence[Rollout],
    how: Optimization,
    head: Head | None = None,
) -> Iterator[Update]:
    """Update `model`, and a critic's head, in place on each update of each rollout; yields what each came to.

    Args:
        rule_after: the loss of the update that follows so many updates.
    """
    policy, initial = AdamW(list(model.parameters()), how), copy.deepcopy(model)
    critic = None if head is None else AdamW(head, how)
    updates = [(update, rollout) for rollout in rollouts for update in rollout]
    for step, (update, rollout) in enumerate(updates):
        rule = rule_after(step)
        made = differentiate(model, initial, head, rule, update, denominators(rule, rollout), how.temperature)
        warm = min(1.0, step / how.warmup_steps)
        policy.step(how.learning_rate * warm)
        if critic is not None and rule.values is not None:
            critic.step(rule.values.learning_rate * warm)
        yield made
