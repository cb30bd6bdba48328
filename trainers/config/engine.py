"""Who samples completions: Transformers in the trainer, or vLLM beside it."""

from typing import Literal

from pydantic import Field

from trainers.config.base import Frozen


class TransformersEngine(Frozen):
    """Generation by Transformers with the very weights that are trained: exact, everywhere, slow for long texts."""

    name: Literal["transformers"] = "transformers"


class VLLMEngine(Frozen):
    """Generation by vLLM on GPUs; weights are sent to it after every rollout's updates."""

    name: Literal["vllm"] = "vllm"
    mode: Literal["colocate", "server"] = Field(
        default="colocate", description="colocate: on the GPUs of training, in turns; server: on GPUs of its own."
    )
    memory_share: float = Field(
        default=0.3, gt=0, lt=1, description="Share of each GPU's memory for vLLM's weights and keys and values."
    )
    tensor_parallel: int = Field(default=1, ge=1, le=64, description="GPUs that hold one copy of the model together.")
    max_length: int | None = Field(
        default=None, ge=1, description="Longest prompt and completion; null: the longest that the run can ask for."
    )
    sleep: bool = Field(default=True, description="colocate: give the memory back while updates are made.")
    server_gpus: int = Field(default=1, ge=1, le=64, description="server: how many of the trial's GPUs it gets.")
    correction: Literal["off", "token_truncate"] = Field(
        default="off",
        description="Weigh tokens by the trainer's over vLLM's probability, up to correction_cap; off: as the papers.",
    )
    correction_cap: float = Field(default=2.0, gt=0)


EngineConfig = TransformersEngine | VLLMEngine
"""Use it as a field with `Field(discriminator="name")`."""
