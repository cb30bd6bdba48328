"""Estimates the memory and the time of one trial from data sheets, before a probe can measure them.

Right within a factor of 2 at best. Every response is counted at its full length, which is too long, and nothing is
counted as done at the same time as something else.
"""

import math
from typing import Final, NamedTuple

from sweep_service.recipes.design import COMPLETIONS, EVALUATIONS, PROBLEMS, PROMPT_TOKENS, UPDATES, Design
from sweep_service.recipes.machines import Card
from sweep_service.recipes.recipe import ModelShape

GB: Final = 1e9
USABLE: Final = 0.92
"""Share of a card's memory that is planned; the rest is for CUDA, fragments and error correction."""
_FULL_BYTES: Final = 16
"""Bytes of a trained parameter: float32 weight, gradient, and AdamW's two moments."""
_AUTOCAST_BYTES: Final = 2
"""Bytes of a trained parameter's bfloat16 copy in a forward pass."""
_BUCKET_BYTES: Final = 4
"""Bytes of DDP's copy of a parameter's gradient."""
_FROZEN_BYTES: Final = 2
"""Bytes of a parameter below adapters, kept in bfloat16."""
_ADAPTER_SHARE: Final = 0.03
"""Parameters of LoRA adapters of rank 32 on all linear layers, as a share of the model's."""
_RESIDUAL_BYTES: Final = 4
"""Bytes for each token, hidden unit and layer that gradient checkpointing keeps."""
_LAYER_BYTES: Final = 140
"""Bytes for each token and hidden unit of the one layer that is being recomputed, with its gradients."""
_HEAD_BYTES: Final = 1.5 * GB
"""Bytes of a tile of logits with its gradients."""
_VLLM_BYTES: Final = 2 * GB
"""Bytes of vLLM's graphs and buffers, which stay while it sleeps."""
_PROCESS_BYTES: Final = 6 * GB
"""Bytes of main memory of a process that trains: libraries, CUDA's pinned buffers, prompts and completions."""
_LOADED_BYTES: Final = 4
"""Bytes of main memory of a parameter while a process loads the model: float32."""
_SAVED_BYTES: Final = 12
"""Bytes of main memory of a trained parameter while a checkpoint is written: weight and AdamW's moments."""
_LARGEST_SHARE: Final = 0.6
"""Largest share of a card's memory for vLLM."""
_TOKENS_AT_ONCE: Final = 32_768
"""Largest number of tokens in a forward and backward pass; more take memory and are hardly faster."""
_FEWEST_SEQUENCES: Final = 8
"""Fewest responses that a GPU must have room to sample at a time, so that sampling does not crawl."""

UNCERTAINTY: Final = 2.0
"""Factor between the time that a trial is given and the estimate."""
_FLOPS_SHARE: Final = 0.35
"""Share of a card's dense bfloat16 rate that training reaches."""
_BANDWIDTH_SHARE: Final = 0.6
"""Share of a card's memory bandwidth that decoding reaches."""
_TOKEN_S: Final = 0.004
"""Seconds that scheduling, launches and drawing tokens take in a decoding step."""
_SCALING: Final = 0.9
"""Speed-up from twice the GPUs, as a share of 2."""
_ROLLOUT_S: Final = 5.0
"""Seconds of a rollout for handing weights to vLLM, waking it, and grading."""
START_S: Final = 300.0
"""Seconds of a trial for loading the model and starting vLLM."""
_DISK: Final = 1e9
"""Bytes a second that are written into checkpoints."""
_OPTIMIZER_BYTES: Final = 30
"""Bytes that one AdamW step reads and writes of a trained parameter."""
_OVERSAMPLED: Final = 2
"""Prompts sampled for each prompt that is trained on."""
_PROBE_COMPLETIONS: Final = 32
"""Completions of the frozen entropy probe that each rollout scores."""


class Placement(NamedTuple):
    """The GPUs of one trial, and how it uses them."""

    gpus: int
    sharding: str
    device_batch: int
    memory_share: float
    """Share of each GPU's memory for vLLM."""
    sequences: int
    """Number of responses that a GPU samples at a time."""


def place(shape: ModelShape, card: Card, gpus: int, design: Design, *, lora: bool) -> Placement | None:
    """Place a trial on this many GPUs; None if it does not fit. Copies of the state are preferred to shards.

    Sampling and updates take turns: vLLM gives its memory back in between.
    """
    total = card.memory * GB
    responses = design.prompts * COMPLETIONS // gpus  # TRL lets vLLM sample no more at a time
    engine, each = 2 * shape.parameters + _VLLM_BYTES, (PROMPT_TOKENS + design.response) * shape.kv_bytes
    useful = math.ceil(20 * (engine + responses * each) / total) / 20
    for sharding in ("none", "fsdp") if gpus > 1 else ("none",):
        free = USABLE * total - state_bytes(shape, gpus, sharding, lora=lora) - _VLLM_BYTES
        batch = _device_batch(shape, free, gpus, design)
        share = min(useful, _LARGEST_SHARE, int(20 * (free + _VLLM_BYTES) / total) / 20)
        sequences = min(responses, int((share * total - engine) / each))
        if batch is not None and sequences >= _FEWEST_SEQUENCES:
            return Placement(gpus, sharding, batch, share, sequences)
    return None


def state_bytes(shape: ModelShape, gpus: int, sharding: str, *, lora: bool) -> float:
    """Return the bytes that training keeps on each GPU all the time."""
    trained = shape.parameters * (_ADAPTER_SHARE if lora else 1)
    frozen = shape.parameters * _FROZEN_BYTES if lora else 0
    if sharding == "none":
        return trained * (_FULL_BYTES + _AUTOCAST_BYTES + _BUCKET_BYTES * (gpus > 1)) + frozen
    gathered = 2 * shape.parameters / shape.num_layers * (_AUTOCAST_BYTES + _BUCKET_BYTES)  # two layers at a time
    return (trained * _FULL_BYTES + frozen) / gpus + gathered


def host_bytes(shape: ModelShape, processes: int, *, lora: bool) -> float:
    """Return the bytes of main memory that a trial takes at most: all its processes load, one writes a checkpoint."""
    trained = shape.parameters * (_ADAPTER_SHARE if lora else 1)
    return processes * (_PROCESS_BYTES + _LOADED_BYTES * shape.parameters) + _SAVED_BYTES * trained


def activation_bytes(shape: ModelShape, device_batch: int, design: Design) -> float:
    """Return the bytes of a forward and backward pass with gradient checkpointing, besides the state."""
    tokens = device_batch * (PROMPT_TOKENS + design.response)
    return tokens * shape.hidden_size * (_RESIDUAL_BYTES * shape.num_layers + _LAYER_BYTES) + _HEAD_BYTES


def _device_batch(shape: ModelShape, free: float, gpus: int, design: Design) -> int | None:
    """Return the largest power of 2 that fits and divides a process's part of a minibatch; None if not even 1 fits."""
    minibatch, tokens = design.prompts // UPDATES * COMPLETIONS, PROMPT_TOKENS + design.response
    for size in (16, 8, 4, 2, 1):
        useful = size == 1 or size * tokens <= _TOKENS_AT_ONCE
        if useful and minibatch % (size * gpus) == 0 and activation_bytes(shape, size, design) <= free:
            return size
    return None


class TrialCost(NamedTuple):
    """Seconds of one trial, by what takes them."""

    sampling: float
    scoring: float
    updates: float
    evaluation: float
    rest: float

    @property
    def total(self) -> float:
        """Seconds of the whole trial."""
        return sum(self)


def trial_cost(shape: ModelShape, card: Card, placement: Placement, design: Design, *, lora: bool) -> TrialCost:
    """Estimate the time of one trial."""
    gpus, trained = placement.gpus, design.prompts * COMPLETIONS
    speed_up = (2 * _SCALING) ** (gpus.bit_length() - 1)
    scored = _forward_s(shape, card, design, trained + _PROBE_COMPLETIONS)
    passes = (3 if lora else 4) * _forward_s(shape, card, design, trained)  # checkpointing runs forward twice
    moments = UPDATES * _OPTIMIZER_BYTES * shape.parameters / (card.bandwidth * 1e12 * _BANDWIDTH_SHARE)
    checkpoint = 12 * shape.parameters * (_ADAPTER_SHARE if lora else 1)  # weights and moments in float32
    return TrialCost(
        sampling=design.rollouts * decode_s(shape, card, placement, design, _OVERSAMPLED * trained),
        scoring=design.rollouts * scored / speed_up,
        updates=design.rollouts * (passes / speed_up + moments),
        evaluation=(EVALUATIONS + 1) * decode_s(shape, card, placement, design, PROBLEMS * design.samples),
        rest=START_S + design.rollouts * _ROLLOUT_S + EVALUATIONS * checkpoint / _DISK,
    )


def decode_s(shape: ModelShape, card: Card, placement: Placement, design: Design, sequences: int) -> float:
    """Return the seconds of sampling responses; each step reads all weights, and the keys and values at work."""
    share = -(-sequences // placement.gpus)
    at_once = min(share, placement.sequences)
    context = PROMPT_TOKENS + design.response / 2
    read = 2 * shape.parameters + at_once * context * shape.kv_bytes
    memory_s = read / (card.bandwidth * 1e12 * _BANDWIDTH_SHARE)
    products_s = at_once * _forward_flops(shape, context) / (card.tflops * 1e12 * _FLOPS_SHARE)
    prefill_s = share * PROMPT_TOKENS * _forward_flops(shape, PROMPT_TOKENS) / (card.tflops * 1e12 * _FLOPS_SHARE)
    return design.response * share / at_once * (max(memory_s, products_s) + _TOKEN_S) + prefill_s


def _forward_s(shape: ModelShape, card: Card, design: Design, sequences: int) -> float:
    """Return the seconds in which one GPU runs this many prompts with responses through the model once."""
    tokens = PROMPT_TOKENS + design.response
    return sequences * tokens * _forward_flops(shape, tokens / 2) / (card.tflops * 1e12 * _FLOPS_SHARE)


def _forward_flops(shape: ModelShape, context: float) -> float:
    """Return the operations for a token that attends to `context` others: 2 a parameter, and keys and values."""
    return 2 * shape.parameters + 4 * shape.num_layers * shape.hidden_size * context
