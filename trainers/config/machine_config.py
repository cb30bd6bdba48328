"""The optimizer, and how its step is computed."""

from typing import Literal

from pydantic import Field

from trainers.config.base import Frozen


class OptimizerConfig(Frozen):
    """AdamW with linear warm-up to a constant learning rate."""

    learning_rate: float = Field(default=2e-4, gt=0, le=1)
    adam_beta1: float = Field(default=0.9, ge=0, lt=1)
    adam_beta2: float = Field(default=0.99, ge=0, lt=1)
    adam_epsilon: float = Field(default=1e-8, gt=0)
    warmup_steps: int = Field(default=40, ge=0, description="Optimizer updates.")
    weight_decay: float = Field(default=0.0, ge=0)
    max_grad_norm: float = Field(default=1.0, gt=0)


class ComputeConfig(Frozen):
    """Precision and memory. Trainable weights stay in float32 whatever is chosen here."""

    autocast: Literal["none", "bfloat16"] = Field(default="none", description="Type of matrix products.")
    gradient_checkpointing: bool = Field(
        default=False, description="Recompute activations in the backward pass: less memory, about a third slower."
    )
    sharding: Literal["none", "fsdp", "zero2", "zero3"] = Field(
        default="none",
        description="How several processes hold weights, gradients, optimizer state: each a copy (DDP), or in parts.",
    )
