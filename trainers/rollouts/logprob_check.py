"""Checks, before a run trains, that the trainer's log-probabilities are those of the policy that samples.

Models differ in how they count positions behind padding, and a wrong count shows nowhere else: a trainer that is only
compared with itself finds every ratio to be 1. Shapes: B sequences, T completion tokens, V the vocabulary.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad as filled

from trainers.errors import ConfigError
from trainers.rollouts.rollout import padded

TOLERANCE_NATS: Final = 1e-3
"""Largest difference of one token's log-probability in float32; correct models stay a hundred times below it."""
REMARKABLE_NATS: Final = 0.05
"""Mean difference of the tokens' log-probabilities from which a run warns where arithmetic differs (bfloat16, vLLM)."""
CHECKED_TOKENS: Final = 8
"""Number of tokens that are sampled after each prompt."""
_PROMPTS: Final = 4

Forward = Callable[[Mapping[str, Tensor]], tuple[Tensor, Tensor]]
"""Log-probabilities and full-vocabulary entropies (B, T) of the present policy, in nats, at the sampling temperature.

It is given `prompt_ids`, `prompt_mask`, `completion_ids` and `completion_mask`, on the CPU.
"""


class Gap(NamedTuple):
    """Distance between two sets of log-probabilities of the same tokens, in nats."""

    mean: float
    largest: float


def chosen_prompts(prompt_ids: Sequence[list[int]]) -> list[list[int]]:
    """Return the shortest and the longest prompts, between which most padding stands."""
    ordered = sorted(prompt_ids, key=len)
    return ordered if len(ordered) <= _PROMPTS else [*ordered[: _PROMPTS // 2], *ordered[-_PROMPTS // 2 :]]


def left_padded(prompt_ids: Sequence[list[int]], pad: int) -> tuple[Tensor, Tensor]:
    """Return ids and mask of the prompts, the longest with at least one token of padding before it."""
    ids, mask = padded(prompt_ids, pad, "left")
    return filled(ids, (1, 0), value=pad), filled(mask, (1, 0))


def padding_gap(
    prompt_ids: Sequence[list[int]], completion_ids: Sequence[list[int]], pad: int, forward: Forward
) -> Gap:
    """Compare the completions' log-probabilities in one padded batch with those of each sequence alone."""
    scores_BT, mask_BT = scored(prompt_ids, completion_ids, pad, forward)
    alone_BT = torch.zeros_like(scores_BT)
    for row, (prompt, completion) in enumerate(zip(prompt_ids, completion_ids, strict=True)):
        ids, tokens = torch.tensor([prompt]), torch.tensor([completion])
        masks = {"prompt_mask": torch.ones_like(ids), "completion_mask": torch.ones_like(tokens)}
        logprobs_1T, _ = forward({"prompt_ids": ids, "completion_ids": tokens, **masks})
        alone_BT[row, : len(completion)] = logprobs_1T[0].cpu()
    return gap(scores_BT, alone_BT, mask_BT)


def scored(
    prompt_ids: Sequence[list[int]], completion_ids: Sequence[list[int]], pad: int, forward: Forward
) -> tuple[Tensor, Tensor]:
    """Return log-probabilities of the completions in one padded batch, and their mask, both (B, T)."""
    names = ("prompt_ids", "prompt_mask", "completion_ids", "completion_mask")
    rows = (*left_padded(prompt_ids, pad), *padded(completion_ids, pad, "right"))
    logprobs_BT, _ = forward(dict(zip(names, rows, strict=True)))
    return logprobs_BT.cpu(), rows[3].bool()


def generated_logprobs(logits: Sequence[Tensor], completion_ids: Sequence[list[int]], temperature: float) -> Tensor:
    """Return the log-probabilities (B, T) that generation drew the completions by, 0 behind a completion's end.

    Args:
        logits: the model's logits (B, V) for each of T tokens, before temperature.
    """
    ids_BT, mask_BT = padded(completion_ids, 0, "right")
    steps = [(step_BV.cpu().float() / temperature).log_softmax(-1) for step_BV in logits[: ids_BT.size(1)]]
    return torch.stack(steps, 1).gather(-1, ids_BT.unsqueeze(-1)).squeeze(-1) * mask_BT


def gap(first_BT: Tensor, second_BT: Tensor, mask_BT: Tensor) -> Gap:
    """Return the distance of two tensors of log-probabilities (B, T) where the mask is set."""
    differences_N = (first_BT.double() - second_BT.double()).abs()[mask_BT]
    return Gap(differences_N.mean().item(), differences_N.max().item())


def worst(gaps: Sequence[Gap | None]) -> Gap | None:
    """Return the largest of the processes' gaps, NaN being the largest; None if there is no gap."""
    present = [value for value in gaps if value is not None]
    return max(present, key=lambda value: (value.largest != value.largest, value.largest), default=None)


def judged(padding: Gap | None, generation: Gap | None, *, exact: bool) -> dict[str, Any] | None:
    """Return a warning where arithmetic may differ and differs remarkably; None if all is well.

    Args:
        generation: distance of the trainer's log-probabilities from generation's; None if generation shows none.
        exact: whether trainer and generation compute the same in float32, so that they must agree.
    Raises: ConfigError, if they must agree and do not.
    """
    gaps = {"without padding": padding, "in generation": generation}
    gaps = {where: value for where, value in gaps.items() if value is not None}
    if exact:
        wrong = [
            f"{value.largest:.3g} nats from those {where}"
            for where, value in gaps.items()
            if not value.largest <= TOLERANCE_NATS  # NaN differs, too
        ]
        if wrong:
            raise ConfigError(
                f"model: the trainer's log-probabilities of the same tokens differ by up to {' and '.join(wrong)} "
                f"(allowed: {TOLERANCE_NATS:g}), so every ratio would be wrong; this model cannot be trained here: "
                "report its architecture"
            )
        return None
    remarkable = {where: value.mean for where, value in gaps.items() if not value.mean <= REMARKABLE_NATS}
    return _warning(remarkable) if remarkable else None


def engine_warning(mean: float | None) -> dict[str, Any] | None:
    """Return a warning if the engine's log-probabilities of its first rollout are remarkably far from the trainer's.

    Args:
        mean: mean absolute difference, in nats a token; None without such an engine.
    """
    return None if mean is None or mean <= REMARKABLE_NATS else _warning({"of vLLM": mean})


def _warning(means: Mapping[str, float]) -> dict[str, Any]:
    figures = " and ".join(f"{value:.3g} nats a token from those {where}" for where, value in means.items())
    return {
        "code": "LOGPROBS_DIFFER",
        "message": (
            f"the trainer's log-probabilities of the same tokens differ by {figures}, which is more than rounding "
            "usually does: ratios are off by as much; train in float32, or look whether the model is damaged"
        ),
        "evidence": {where.replace(" ", "_"): value for where, value in means.items()},
    }
