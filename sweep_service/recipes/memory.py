"""What fits on a GPU: weights and their optimizer, activations, and vLLM's part. Arithmetic, not measured."""

import math
from typing import Final, NamedTuple

from sweep_service.recipes.cards import Card
from sweep_service.recipes.design import COMPLETIONS, PROMPT_TOKENS, UPDATES, Design
from sweep_service.recipes.shape import ModelShape

GB: Final = 1e9
USABLE: Final = 0.92
"""Of a card's memory; the rest is for CUDA, fragments and error correction."""
_FULL_BYTES: Final = 16
"""A trained parameter: float32 weight, gradient, and AdamW's two moments."""
_AUTOCAST_BYTES: Final = 2
"""Its bfloat16 copy in a forward pass."""
_BUCKET_BYTES: Final = 4
"""DDP's copy of the gradient."""
_FROZEN_BYTES: Final = 2
"""A parameter below adapters, kept in bfloat16."""
ADAPTER_SHARE: Final = 0.03
"""Parameters of LoRA adapters of rank 32 on all linear layers, of the model's."""
_RESIDUAL_BYTES: Final = 4
"""Of a token, hidden unit and layer: what gradient checkpointing keeps."""
_LAYER_BYTES: Final = 140
"""Of a token and hidden unit: the one layer that is being recomputed, with its gradients."""
_HEAD_BYTES: Final = 1.5 * GB
"""A tile of logits with its gradients."""
_VLLM_BYTES: Final = 2 * GB
"""vLLM's graphs and buffers, also while it sleeps."""
_LARGEST_SHARE: Final = 0.6
_TOKENS_AT_ONCE: Final = 32_768
"""In a forward and backward pass; more takes memory and is hardly faster."""
_FEWEST_SEQUENCES: Final = 8
"""With fewer at a time sampling would crawl."""


class Placement(NamedTuple):
    """How one trial lies on its GPUs."""

    gpus: int
    sharding: str
    device_batch: int
    memory_share: float
    """Of each GPU, for vLLM."""
    sequences: int
    """That a GPU samples at a time."""
    used: float
    """GB of each GPU, at the peak."""


def place(shape: ModelShape, card: Card, gpus: int, design: Design, *, lora: bool) -> Placement | None:
    """How a trial fits on so many GPUs; None if it does not. Copies are preferred to shards."""
    for sharding in ("none", "fsdp") if gpus > 1 else ("none",):
        if found := _place(shape, card, gpus, sharding, design, lora=lora):
            return found
    return None


def _place(shape: ModelShape, card: Card, gpus: int, sharding: str, design: Design, *, lora: bool) -> Placement | None:
    """The same with this sharding. Sampling and updates take turns: vLLM gives its memory back in between."""
    total, asked = card.memory * GB, design.prompts * COMPLETIONS // gpus  # TRL lets vLLM have no more at a time
    resident = state_bytes(shape, gpus, sharding, lora=lora) + _VLLM_BYTES
    free = USABLE * total - resident
    batch = _device_batch(shape, free, gpus, design)
    engine, each = 2 * shape.parameters + _VLLM_BYTES, (PROMPT_TOKENS + design.response) * shape.kv_bytes
    wanted = math.ceil(20 * (engine + asked * each) / total) / 20
    share = min(wanted, _LARGEST_SHARE, int(20 * (free + _VLLM_BYTES) / total) / 20)
    sequences = min(asked, int((share * total - engine) / each))
    if batch is None or sequences < _FEWEST_SEQUENCES:
        return None
    peak = resident + max(activation_bytes(shape, batch, design), share * total - _VLLM_BYTES)
    return Placement(gpus, sharding, batch, share, sequences, peak / GB)


def state_bytes(shape: ModelShape, gpus: int, sharding: str, *, lora: bool) -> float:
    """What training keeps on each GPU all the time."""
    trained = shape.parameters * (ADAPTER_SHARE if lora else 1)
    frozen = shape.parameters * _FROZEN_BYTES if lora else 0
    if sharding == "none":
        return trained * (_FULL_BYTES + _AUTOCAST_BYTES + _BUCKET_BYTES * (gpus > 1)) + frozen
    gathered = 2 * shape.parameters / shape.num_layers * (_AUTOCAST_BYTES + _BUCKET_BYTES)  # two layers at a time
    return (trained * _FULL_BYTES + frozen) / gpus + gathered


def activation_bytes(shape: ModelShape, device_batch: int, design: Design) -> float:
    """What a forward and backward pass takes besides, with gradient checkpointing."""
    tokens = device_batch * (PROMPT_TOKENS + design.response)
    return tokens * shape.hidden_size * (_RESIDUAL_BYTES * shape.num_layers + _LAYER_BYTES) + _HEAD_BYTES


def _device_batch(shape: ModelShape, free: float, gpus: int, design: Design) -> int | None:
    """The largest power of 2 that fits and divides a process's part of a minibatch; None if not even 1 fits."""
    minibatch, tokens = design.prompts // UPDATES * COMPLETIONS, PROMPT_TOKENS + design.response
    for size in (16, 8, 4, 2, 1):
        useful = size == 1 or size * tokens <= _TOKENS_AT_ONCE
        if useful and minibatch % (size * gpus) == 0 and activation_bytes(shape, size, design) <= free:
            return size
    return None


def checkpoint_bytes(shape: ModelShape, *, lora: bool) -> float:
    """A checkpoint: weights and AdamW's moments in float32."""
    return 12 * shape.parameters * (ADAPTER_SHARE if lora else 1)


def disk_bytes(shape: ModelShape, trials: int, parallel: int, *, lora: bool) -> float:
    """What a sweep takes at most: a trial has one checkpoint and the next; one that has ended, its model."""
    each = checkpoint_bytes(shape, lora=lora)
    return trials * each / 3 + parallel * 2 * each
