"""The policy that is trained, its optimizer, and the precision and memory of the updates."""

from collections.abc import Iterator
from typing import Annotated, Final, Literal

from pydantic import Field

from trainers.config.base import CatalogName, Frozen
from trainers.config.nearest import nearest
from trainers.losses.base import MAX_STEPS

_NARROWEST: Final = 8
_WIDEST: Final = 1024


class LoRAConfig(Frozen):
    """Train low-rank adapters instead of all weights (arXiv:2106.09685). No dropout: it would break the ratios."""

    rank: int = Field(default=16, ge=1, le=1024)
    alpha: float = Field(default=32.0, gt=0, le=1e6, description="Adapters are scaled by alpha / rank.")
    target_modules: Annotated[tuple[str, ...], Field(max_length=100)] | Literal["all-linear"] = Field(
        default="all-linear", description="Names of the layers that get adapters, at most 100."
    )


class TinyPolicy(Frozen):
    """A Qwen2 policy made from scratch and warm-started by supervised training; built once, cached by content."""

    name: Literal["tiny_qwen2"] = "tiny_qwen2"
    hidden_size: int = Field(default=64, ge=_NARROWEST, le=_WIDEST)
    num_layers: int = Field(default=2, ge=1, le=16)
    num_heads: int = Field(default=4, ge=1, le=16)
    warm_start_steps: int = Field(default=2400, ge=1, le=100_000, description="Supervised steps.")
    warm_start_seed: int = Field(default=0, ge=0, lt=2**32)
    lora: LoRAConfig | None = None

    def _refusals(self) -> Iterator[str]:
        if self.hidden_size % (step := 2 * self.num_heads):
            works = [size for size in range(step, _WIDEST + 1, step) if size >= _NARROWEST]
            yield (
                f"model.hidden_size {self.hidden_size} is not a multiple of 2 x model.num_heads {self.num_heads}; "
                f"{nearest('model.hidden_size', self.hidden_size, works)}"
            )


class PretrainedModel(Frozen):
    """A Hugging Face causal language model of the catalog: `sweeps models add`."""

    name: Literal["pretrained"] = "pretrained"
    model: CatalogName = Field(description="Its name in the catalog.")
    weights_dtype: Literal["float32", "bfloat16"] = Field(
        default="float32", description="Type the weights are kept in; bfloat16 only makes sense below LoRA adapters."
    )
    lora: LoRAConfig | None = None


ModelConfig = TinyPolicy | PretrainedModel
"""Use it as a field with `Field(discriminator="name")`."""


class OptimizerConfig(Frozen):
    """AdamW with linear warm-up to a constant learning rate."""

    learning_rate: float = Field(default=2e-4, gt=0, le=1)
    adam_beta1: float = Field(default=0.9, ge=0, lt=1)
    adam_beta2: float = Field(default=0.99, ge=0, lt=1)
    adam_epsilon: float = Field(default=1e-8, ge=1e-30, le=1)
    warmup_steps: int = Field(default=40, ge=0, le=MAX_STEPS, description="Optimizer updates.")
    weight_decay: float = Field(default=0.0, ge=0, le=1e6)
    max_grad_norm: float = Field(default=1.0, gt=0, le=1e12)


class ComputeConfig(Frozen):
    """Precision and memory. Trainable weights stay in float32 whatever is chosen here."""

    autocast: Literal["none", "bfloat16"] = Field(default="none", description="Type of matrix products.")
    gradient_checkpointing: bool = Field(
        default=False, description="Recompute activations in the backward pass: less memory, about a third slower."
    )
    sharding: Literal["none", "fsdp", "zero2", "zero3"] = Field(
        default="none",
        description="Distribution of weights, gradients and optimizer state over processes: copies (DDP), or parts.",
    )
