"""The rules of `trainers.losses.contract`, one function with `@_rule` each, and the batches on which they judge.

Shapes: B sequences, T completion tokens.
"""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final

import torch
from torch import Tensor

from trainers.losses.base import REGIONS, ClipParams, LossOutput, regions
from trainers.losses.batch import TokenBatch
from trainers.losses.entry import LossEntry, entry_fault, output_fault

Weight = Callable[[float, float, Any], float]
"""Closed form of the gradient weight, the factor on A grad log pi: of a token's ratio, its advantage and the params."""

_ROWS: Final = tuple(
    (float(delta), advantage) for delta in torch.linspace(-4.3, 3.9, 83) for advantage in (-2, -0.5, 1.5)
)
"""Log-ratios in nats and advantages of the tokens on which the weight is judged."""
_FAR: Final = (-1e4, -300.0, -90.0, -20.5, -1.0, 0.0, 1.0, 20.5, 44.5, 90.0, 300.0, 1e4)
_NEAR: Final = 0.5
"""Nats; a clamp within which most tokens lie."""
_ADVANTAGES: Final = (-10.0, 0.0, 10.0)
_GARBAGE: Final = (float("nan"), float("inf"), -1e30)
_TOLD: Final = 3
"""Tokens that a sentence shows."""


@dataclass(frozen=True)
class Subject:
    """A loss with parameters, and what its author says of it.

    Attributes:
        weight: closed form of its gradient weight; None: the author states none, and that rule holds.
        reinforce: whether its gradient at ratio 1 is that of REINFORCE, -A grad log pi.
        looks_at_the_batch: whether a token's loss depends on other sequences of the batch.
    """

    entry: LossEntry
    params: ClipParams
    weight: Weight | None = None
    reinforce: bool = True
    looks_at_the_batch: bool = False


Rule = Callable[[Subject], str | None]
"""Says how a loss breaks the rule; None if it keeps it."""

RULES: Final[dict[str, Rule]] = {}
"""All rules by name, in the order in which they are told."""


def _rule(function: Rule) -> Rule:
    RULES[function.__name__] = function
    return function


def token_batch(rows_BTR: Tensor, mask_BT: Tensor | None = None, filler: float = 0.0) -> TokenBatch:
    """Return a batch whose last axis R has log-ratio and advantage, with all optional parts.

    Args:
        mask_BT: true for tokens; None: all are.
        filler: what every input reads at padding.
    """
    delta_BT, advantages_BT = rows_BTR.unbind(-1)
    mask_BT = torch.ones_like(delta_BT, dtype=torch.bool) if mask_BT is None else mask_BT
    old_BT, entropy_BT = torch.full_like(delta_BT, -2), torch.ones_like(delta_BT)
    parts = [part_BT.where(mask_BT, filler) for part_BT in (delta_BT - 2, old_BT, advantages_BT, entropy_BT)]
    return TokenBatch(
        parts[0].requires_grad_(),
        parts[1],
        parts[2],
        mask_BT,
        entropy_BT=parts[3].clone().requires_grad_(),
        old_entropy_BT=parts[3],
        correct_B=torch.ones(len(rows_BTR)),
        active_B=torch.ones(len(rows_BTR)),
        selected_BT=torch.zeros_like(mask_BT),  # no token is drawn, so that a batch can be compared with its parts
        generator=torch.Generator().manual_seed(0),
    )


def run(subject: Subject, batch: TokenBatch) -> tuple[LossOutput, Tensor]:
    """Return a loss's output and d (sum of the tokens' losses) / d log pi, (B, T), without padding in the sum."""
    output = subject.entry.function(batch, subject.params)
    total = output.loss_BT.masked_fill(~batch.mask_BT, 0).sum()
    return output, torch.autograd.grad(total, batch.logprobs_BT)[0]


@_rule
def entry_is_usable(subject: Subject) -> str | None:
    """A package can name the entry, and its params are stored and read back as they are."""
    if fault := entry_fault(subject.entry, str(getattr(subject.params, "name", None))):
        return fault
    if type(subject.params) is not subject.entry.params:
        return f"params are {type(subject.params).__name__}, not the entry's {subject.entry.params.__name__}"
    if subject.entry.params.model_validate_json(subject.params.model_dump_json()) != subject.params:
        return "the params do not come back from JSON as they were"
    return None


@_rule
def importing_it_imports_no_torch(subject: Subject) -> str | None:
    """The module of the params imports without torch, as the service does where it validates configurations."""
    return _imports_torch(subject.entry.params.__module__)


@cache
def _imports_torch(module: str) -> str | None:
    code = f"import sys; sys.path[:] = {sys.path!r}; import {module}; sys.exit(3 if 'torch' in sys.modules else 0)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    if ended.returncode == 3:
        return f"{module} imports torch; import it inside the function, and for annotations under TYPE_CHECKING"
    return f"{module} cannot be imported: {ended.stderr.strip()[-300:]}" if ended.returncode else None


@_rule
def output_is_complete(subject: Subject) -> str | None:
    """Loss, ratio and masks are (B, T), the loss has the dtype of the log-probabilities and carries their gradient."""
    batch = token_batch(_drawn_rows(4, 5))
    output = subject.entry.function(batch, subject.params)
    if fault := output_fault(output, batch):
        return f"it returns {fault}"
    if output.loss_BT.dtype != batch.logprobs_BT.dtype:
        return f"loss_BT is {output.loss_BT.dtype}, not {batch.logprobs_BT.dtype} as logprobs_BT"
    return None


@_rule
def weight_is_as_stated(subject: Subject) -> str | None:
    """Autograd through the loss gives -A x the stated weight, on sequences of one token, in float64."""
    if subject.weight is None:
        return None
    rows_BTR = torch.tensor(_ROWS, dtype=torch.float64).unsqueeze(1)
    _, gradient_BT = run(subject, token_batch(rows_BTR))
    delta_B, advantage_B = rows_BTR[:, 0].unbind(-1)
    pairs = list(zip(delta_B.exp().tolist(), advantage_B.tolist(), strict=True))
    stated = torch.tensor([-a * subject.weight(ratio, a, subject.params) for ratio, a in pairs], dtype=torch.float64)
    wrong = (~torch.isclose(gradient_BT[:, 0], stated, rtol=1e-9, atol=1e-12)).nonzero().flatten().tolist()
    if not wrong:
        return None
    shown = [
        f"ratio {pairs[i][0]:.4g}, A {pairs[i][1]:g}: {float(gradient_BT[i, 0]):.6g} and not {float(stated[i]):.6g}"
        for i in wrong[:_TOLD]
    ]
    return f"the gradient is not -A x weight for {len(wrong)} of {len(pairs)} tokens; {'; '.join(shown)}"


@_rule
def reinforce_at_ratio_one(subject: Subject) -> str | None:
    """At ratio 1 the gradient is -A, if the author says so."""
    advantages_B = torch.tensor([-3.0, -0.2, 0.0, 0.7, 5.0], dtype=torch.float64)
    rows_BTR = torch.stack((torch.zeros_like(advantages_B), advantages_B), -1).unsqueeze(1)
    _, gradient_BT = run(subject, token_batch(rows_BTR))
    if not subject.reinforce or torch.allclose(gradient_BT[:, 0], -advantages_B, rtol=1e-9, atol=1e-12):
        return None
    return f"at ratio 1 the gradient for A = {advantages_B.tolist()} is {gradient_BT[:, 0].tolist()}, not -A"


@_rule
def padding_changes_nothing(subject: Subject) -> str | None:
    """Columns of padding leave loss and gradient of the tokens as they are, and get no gradient, whatever they hold."""
    rows_BTR = _drawn_rows(4, 5)
    alone, alone_gradient_BT = run(subject, token_batch(rows_BTR))
    wide_BTR = torch.cat((rows_BTR, _drawn_rows(4, 3)), 1)
    mask_BT = (torch.arange(8) < 5).expand(4, -1)
    for filler in (0.0, *_GARBAGE):
        output, gradient_BT = run(subject, token_batch(wide_BTR, mask_BT, filler))
        if not _close(output.loss_BT[:, :5], alone.loss_BT) or not _close(gradient_BT[:, :5], alone_gradient_BT):
            return (
                "three columns of padding change the loss or gradient of the tokens; leave it out of means and counts"
            )
        if gradient_BT[:, 5:].count_nonzero() or not gradient_BT.isfinite().all():
            return f"padding that reads {filler} gets a gradient"
    return None


@_rule
def an_empty_batch_gives_zero(subject: Subject) -> str | None:
    """A batch without any token has no gradient, and nothing that is not finite."""
    output, gradient_BT = run(subject, token_batch(_drawn_rows(2, 3), torch.zeros(2, 3, dtype=torch.bool)))
    if gradient_BT.count_nonzero() or not output.loss_BT.isfinite().all():
        return f"without a token the losses are {output.loss_BT.tolist()}, the gradients {gradient_BT.tolist()}"
    return None


@_rule
def large_ratios_stay_finite(subject: Subject) -> str | None:
    """Values and gradients are finite at any finite log-ratio, in both dtypes, with and without a clamp."""
    clamps = [{}, {"log_ratio_clamp": None}] if "log_ratio_clamp" in type(subject.params).model_fields else [{}]
    for change in clamps:
        tried = replace(subject, params=subject.params.model_copy(update=change))
        for dtype in (torch.float32, torch.float64):
            rows_BTR = torch.tensor([[[delta, a] for a in _ADVANTAGES] for delta in _FAR], dtype=dtype)
            output, gradient_BT = run(tried, token_batch(rows_BTR))
            finite_BT = output.loss_BT.isfinite() & gradient_BT.isfinite() & output.ratio_BT.isfinite()
            if not finite_BT.all():
                row, column = (~finite_BT).nonzero()[0].tolist()
                place = f"log-ratio {_FAR[row]:g}, A {_ADVANTAGES[column]:g}, {dtype}, {change or 'params as given'}"
                loss, gradient = output.loss_BT[row, column].item(), gradient_BT[row, column].item()
                return f"loss {loss} and gradient {gradient} at {place}; take batch.ratio_BT and batch.unit_BT"
    return None


@_rule
def the_clamp_is_the_setting(subject: Subject) -> str | None:
    """The ratio is cut where `log_ratio_clamp` says, if the loss has this setting."""
    if "log_ratio_clamp" not in type(subject.params).model_fields:
        return None
    tried = replace(subject, params=subject.params.model_copy(update={"log_ratio_clamp": _NEAR}))
    deltas = (-1.0, -0.1, 0.1, 1.0)
    rows_BTR = torch.tensor([[[delta, a] for delta in deltas] for a in (-1.0, 1.0)], dtype=torch.float64)
    output, _ = run(tried, token_batch(rows_BTR))
    if not _close(output.ratio_BT, rows_BTR[..., 0].clamp(-_NEAR, _NEAR).exp()):
        ratios = ", ".join(f"{ratio:.4g}" for ratio in output.ratio_BT[0].tolist())
        return f"with log_ratio_clamp {_NEAR} the log-ratios {deltas} give the ratios {ratios}; take batch.ratio_BT"
    return None


@_rule
def parts_add_up(subject: Subject) -> str | None:
    """Each sequence alone has the loss and gradient that it has in the batch; a device batch is cut from an update."""
    if subject.looks_at_the_batch:
        return None
    rows_BTR, mask_BT = _drawn_rows(6, 5), torch.arange(5) < torch.tensor([5, 3, 1, 0, 4, 2]).unsqueeze(-1)
    whole, whole_gradient_BT = run(subject, token_batch(rows_BTR, mask_BT))
    for row in range(len(rows_BTR)):
        part, gradient_BT = run(subject, token_batch(rows_BTR[row : row + 1], mask_BT[row : row + 1]))
        here = mask_BT[row]
        same = _close(part.loss_BT[0, here], whole.loss_BT[row, here])
        if not same or not _close(gradient_BT[0], whole_gradient_BT[row]):
            return f"sequence {row} has another loss or gradient alone than in its batch; or say looks_at_the_batch"
    return None


@_rule
def inputs_stay_as_they_are(subject: Subject) -> str | None:
    """The loss changes no tensor of its batch in place."""
    batch = token_batch(_drawn_rows(4, 5))
    before = {name: part.clone() for name, part in vars(batch).items() if isinstance(part, Tensor)}
    subject.entry.function(batch, subject.params)
    changed = [name for name, part in before.items() if not torch.equal(part, getattr(batch, name))]
    return f"it changes {', '.join(changed)} in place; compute new tensors" if changed else None


@_rule
def the_same_twice(subject: Subject) -> str | None:
    """Equal batches with equal generators give equal outputs."""
    first, second = (run(subject, token_batch(_drawn_rows(4, 5))) for _ in range(2))
    same = torch.equal(first[0].loss_BT, second[0].loss_BT) and torch.equal(first[1], second[1])
    return None if same else "the same batch gives two results; draw from batch.generator, and keep no state"


@_rule
def regions_partition_the_tokens(subject: Subject) -> str | None:
    """The regions are those of `ratio_BT` and its bounds (the params', or the output's own), and false at padding."""
    rows_BTR = torch.cat((_drawn_rows(5, 5), torch.tensor([[[-1.0, 0.0], [1.0, 0.0]] * 3]).double()[:, :5]))
    mask_BT = torch.arange(5) < torch.tensor([5, 3, 1, 0, 4, 5]).unsqueeze(-1)
    batch = token_batch(rows_BTR, mask_BT)
    output = subject.entry.function(batch, subject.params)
    selected = {} if output.selected_BT is None else {"selected_BT": output.selected_BT}
    masks: dict[str, Tensor] = {**output.regions, **selected}
    for name, part_BT in masks.items():
        if part_BT.dtype != torch.bool:
            return f"{name} is {part_BT.dtype}, not bool"
        if (part_BT & ~mask_BT).any():
            return f"{name} is true at padding, which metrics would count"
    wanted = regions(output.ratio_BT, batch.advantages_BT, output.bounds or subject.params)
    wrong = [
        f"{region} is where {condition}"
        for region, condition in REGIONS.items()
        if not torch.equal(output.regions[region], wanted[region] & mask_BT)
    ]
    return f"{'; '.join(wrong)}: use trainers.losses.regions, on ratio_BT" if wrong else None


def _drawn_rows(sequences: int, tokens: int) -> Tensor:
    """Return log-ratios within 1.5 nats, and advantages, (B, T, 2); the same at each call."""
    drawn = torch.rand(sequences, tokens, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return (drawn - 0.5) * torch.tensor([3.0, 4.0], dtype=torch.float64)


def _close(one: Tensor, other: Tensor) -> bool:
    return torch.allclose(one, other, rtol=1e-9, atol=1e-12)
