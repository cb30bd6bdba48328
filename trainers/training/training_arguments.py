"""Translates our configuration into TRL's arguments."""

from pathlib import Path
from typing import Any

import torch
from torch.distributed.fsdp import MixedPrecisionPolicy
from trl.trainer.grpo_config import GRPOConfig

from trainers.config import TrainingConfig
from trainers.training.sharding import sharding_arguments


def training_arguments(config: TrainingConfig, folder: Path, processes: int) -> GRPOConfig:
    """Return TRL's arguments, except for advantages, loss, statistics and record, which are ours.

    Args:
        folder: folder for unfinished checkpoints.
        processes: number of processes that train together; the effective batch does not depend on it.
    """
    rollout, optimizer, cuda = config.rollout, config.optimizer, torch.cuda.is_available()
    accumulation = config.accumulation_steps // processes
    arguments = GRPOConfig(
        output_dir=str(folder),
        seed=config.seed,
        max_steps=config.steps,
        # rollouts; a generation batch is a whole rollout, so ratios leave 1 after its first update
        per_device_train_batch_size=config.device_batch,
        gradient_accumulation_steps=accumulation,
        steps_per_generation=accumulation * rollout.updates_per_rollout,
        num_generations=rollout.completions_per_prompt,
        max_completion_length=rollout.max_completion_tokens,
        temperature=rollout.temperature,
        top_p=rollout.top_p,
        top_k=0,
        shuffle_dataset=False,
        beta=0.0,
        # optimizer
        learning_rate=optimizer.learning_rate,
        lr_scheduler_type="constant_with_warmup",
        warmup_steps=optimizer.warmup_steps,
        adam_beta1=optimizer.adam_beta1,
        adam_beta2=optimizer.adam_beta2,
        adam_epsilon=optimizer.adam_epsilon,
        weight_decay=optimizer.weight_decay,
        max_grad_norm=optimizer.max_grad_norm,
        # machine
        use_cpu=not cuda,
        bf16=config.compute.autocast == "bfloat16",
        **sharding_arguments(config.compute),
        ddp_find_unused_parameters=False,
        dataloader_pin_memory=cuda,
        # record
        logging_steps=1,
        logging_nan_inf_filter=False,
        save_strategy="no",
        report_to="none",
        log_level_replica="passive",  # as quiet as the first process
        disable_tqdm=True,
    )
    arguments._n_gpu = min(1, arguments.n_gpu)  # one process has one GPU, however many it sees
    plugin: dict[str, Any] | None = arguments.fsdp_plugin_args
    if plugin is not None and config.compute.autocast == "bfloat16":
        # products in bfloat16, sums of gradients over processes in float32
        plugin["mixed_precision_policy"] = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    return arguments
