"""Lets several processes hold one model in parts: FSDP2 by torch, ZeRO by DeepSpeed, through Hugging Face's Trainer."""

from collections.abc import Generator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

from torch.distributed.fsdp import FSDPModule

from trainers.config import ComputeConfig
from trainers.errors import ConfigError


def sharding_arguments(compute: ComputeConfig) -> dict[str, Any]:
    """Return the arguments of `TrainingArguments`, gradient checkpointing included, which FSDP does itself.

    Raises: ConfigError, if DeepSpeed is asked for and not installed.
    """
    checkpointing = compute.gradient_checkpointing
    match compute.sharding:
        case "none":
            return {"activation_checkpointing": checkpointing}
        case "fsdp":
            return {
                "activation_checkpointing": False,
                "fsdp": True,
                "fsdp_config": {
                    "version": 2,
                    "auto_wrap_policy": "TRANSFORMER_BASED_WRAP",  # a part is a layer, as the model names its layers
                    "reshard_after_forward": True,
                    "activation_checkpointing": checkpointing,
                    "state_dict_type": "FULL_STATE_DICT",  # so that a checkpoint is an ordinary model folder
                },
            }
        case "zero2" | "zero3":
            if find_spec("deepspeed") is None:
                raise ConfigError(
                    f"compute.sharding {compute.sharding}: DeepSpeed is not installed; `pip install deepspeed` beside "
                    "the CUDA toolkit it compiles with, or set compute.sharding to fsdp, which needs nothing besides"
                )
            stage = int(compute.sharding[-1])
            return {"activation_checkpointing": checkpointing, "deepspeed": zero_config(stage)}


def zero_config(stage: int) -> dict[str, Any]:
    """Return DeepSpeed's configuration of a ZeRO stage; the Trainer fills in "auto" from its own arguments."""
    return {
        "zero_optimization": {
            "stage": stage,
            "overlap_comm": True,
            "contiguous_gradients": True,
            # so that a checkpoint is an ordinary model folder, not parts of one only
            **({"stage3_gather_16bit_weights_on_model_save": True} if stage == 3 else {}),
        },
        "bf16": {"enabled": "auto"},
        "data_types": {"grad_accum_dtype": "fp32"},
        "gradient_clipping": "auto",
        "gradient_accumulation_steps": "auto",
        "train_batch_size": "auto",
        "train_micro_batch_size_per_gpu": "auto",
    }


@contextmanager
def whole_weights(model: Any) -> Generator[None]:
    """Keep FSDP's parts together on every process for the block: sampling reads all weights for every token.

    They are gathered by the first pass of the block and stay, so processes need not sample equally many tokens.
    """
    parts = [module for module in model.modules() if isinstance(module, FSDPModule)]
    splits = [
        part is not model
        and any(group.post_forward_mesh_info is not None for group in part._get_fsdp_state()._fsdp_param_groups)
        for part in parts
    ]
    for part in parts:
        part.set_reshard_after_forward(False, recurse=False)
    try:
        yield
    finally:
        for part, split in zip(parts, splits, strict=True):
            part.set_reshard_after_forward(split, recurse=False)
            part.reshard()
