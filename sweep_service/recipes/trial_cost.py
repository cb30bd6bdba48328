"""How long a trial takes. Arithmetic from data sheets, right within a factor of 2 at best; a probe measures it.

Every response is counted at its full length, which is too long, and overlaps are not counted.
"""

from typing import Final, NamedTuple

from sweep_service.recipes.cards import Card
from sweep_service.recipes.design import COMPLETIONS, EVALUATIONS, PROBLEMS, PROMPT_TOKENS, UPDATES, Design
from sweep_service.recipes.memory import Placement, checkpoint_bytes
from sweep_service.recipes.shape import ModelShape

UNCERTAINTY: Final = 2.0
"""A trial is given so many times what is computed here."""
FLOPS_SHARE: Final = 0.35
"""Of a card's dense bfloat16 rate that training reaches."""
BANDWIDTH_SHARE: Final = 0.6
"""Of a card's bandwidth that decoding reaches."""
_TOKEN_S: Final = 0.004
"""Of a decoding step besides: scheduling, launches, drawing tokens."""
_SCALING: Final = 0.9
"""Of twice the speed, that twice the GPUs give."""
_ROLLOUT_S: Final = 5.0
"""Of a rollout besides: weights to vLLM, waking it, grading."""
_START_S: Final = 300.0
"""Of a trial: loading the model, starting vLLM."""
_DISK: Final = 1e9
"""Bytes a second into checkpoints."""
_OPTIMIZER_BYTES: Final = 30
"""Read and written of a trained parameter in one AdamW step."""
_OVERSAMPLED: Final = 2
"""Prompts sampled for each one that is trained on."""
_PROBE_COMPLETIONS: Final = 32


class TrialCost(NamedTuple):
    """Seconds of one trial, by what takes them."""

    sampling: float
    scoring: float
    updates: float
    evaluation: float
    rest: float

    @property
    def total(self) -> float:
        """All of it."""
        return sum(self)


def trial_cost(
    shape: ModelShape,
    card: Card,
    placement: Placement,
    design: Design,
    *,
    lora: bool,
    evaluations: int = EVALUATIONS,
    problems: int = PROBLEMS,
) -> TrialCost:
    """What one trial takes.

    Args:
        evaluations, problems: of a trial; the model before training is evaluated besides.
    """
    gpus, trained = placement.gpus, design.prompts * COMPLETIONS
    scored = _forward_s(shape, card, design, trained + _PROBE_COMPLETIONS)
    passes = (3 if lora else 4) * _forward_s(shape, card, design, trained)  # checkpointing runs forward twice
    moments = UPDATES * _OPTIMIZER_BYTES * shape.parameters / (card.bandwidth * 1e12 * BANDWIDTH_SHARE)
    asked = problems * design.samples
    return TrialCost(
        sampling=design.rollouts * decode_s(shape, card, placement, design, _OVERSAMPLED * trained),
        scoring=design.rollouts * scored / _speed_up(gpus),
        updates=design.rollouts * (passes / _speed_up(gpus) + moments),
        evaluation=(evaluations + 1) * decode_s(shape, card, placement, design, asked),
        rest=_START_S + design.rollouts * _ROLLOUT_S + EVALUATIONS * checkpoint_bytes(shape, lora=lora) / _DISK,
    )


def decode_s(shape: ModelShape, card: Card, placement: Placement, design: Design, sequences: int) -> float:
    """Sample so many responses: each step reads all weights, and the keys and values of those at work."""
    share = -(-sequences // placement.gpus)
    at_once = min(share, placement.sequences)
    context = PROMPT_TOKENS + design.response / 2
    read = 2 * shape.parameters + at_once * context * shape.kv_bytes
    memory_s = read / (card.bandwidth * 1e12 * BANDWIDTH_SHARE)
    products_s = at_once * _forward_flops(shape, context) / (card.tflops * 1e12 * FLOPS_SHARE)
    prefill_s = share * PROMPT_TOKENS * _forward_flops(shape, PROMPT_TOKENS) / (card.tflops * 1e12 * FLOPS_SHARE)
    return design.response * share / at_once * (max(memory_s, products_s) + _TOKEN_S) + prefill_s


def _forward_s(shape: ModelShape, card: Card, design: Design, sequences: int) -> float:
    """Run so many prompts with responses through the model once, on one GPU."""
    tokens = PROMPT_TOKENS + design.response
    return sequences * tokens * _forward_flops(shape, tokens / 2) / (card.tflops * 1e12 * FLOPS_SHARE)


def _forward_flops(shape: ModelShape, context: float) -> float:
    """Of one token that looks back on so many: 2 a parameter, and the products with keys and values."""
    return 2 * shape.parameters + 4 * shape.num_layers * shape.hidden_size * context


def _speed_up(gpus: int) -> float:
    return (2 * _SCALING) ** (gpus.bit_length() - 1)
