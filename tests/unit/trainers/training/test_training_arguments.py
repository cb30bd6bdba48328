"""Our configuration in TRL's words, checked by the libraries' own classes."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from accelerate.utils import FullyShardedDataParallelPlugin
from accelerate.utils.deepspeed import HfDeepSpeedConfig

from trainers.config import ComputeConfig, TrainingConfig
from trainers.errors import ConfigError
from trainers.training import sharding
from trainers.training import training_arguments as training_arguments_module
from trainers.training.sharding import sharding_arguments, zero_config
from trainers.training.training_arguments import training_arguments

CONFIG: dict[str, Any] = {
    "rollout": {"prompts_per_rollout": 32, "completions_per_prompt": 8, "prompts_per_minibatch": 8},
    "steps": 16,
}


def arguments(processes: int = 1, **changes: Any) -> Any:
    return training_arguments(TrainingConfig.model_validate(CONFIG | changes), Path("unfinished"), processes)


@pytest.mark.parametrize("device_batch", [1, 4, 8])
@pytest.mark.parametrize("processes", [1, 2, 4, 8])
def test_an_update_and_a_rollout_are_the_same_for_any_number_of_processes(processes: int, device_batch: int) -> None:
    trl = arguments(processes, device_batch=device_batch)
    together = trl.per_device_train_batch_size * processes
    assert together * trl.gradient_accumulation_steps == 8 * 8  # sequences of an update
    assert together * trl.steps_per_generation == 32 * 8  # sequences of a rollout
    assert trl.steps_per_generation == 4 * trl.gradient_accumulation_steps  # updates of a rollout
    assert (trl.max_steps, trl.num_generations) == (16, 8)


def test_fsdp_is_what_accelerate_takes_it_for_and_rounds_products_only_if_configured() -> None:
    trl = arguments(2, device_batch=4, compute={"sharding": "fsdp", "autocast": "bfloat16"})
    plugin = FullyShardedDataParallelPlugin(**trl.fsdp_plugin_args)
    assert (plugin.fsdp_version, plugin.reshard_after_forward, plugin.activation_checkpointing) == (2, True, False)
    assert plugin.state_dict_type is not None
    assert plugin.state_dict_type.name == "FULL_STATE_DICT"
    assert plugin.auto_wrap_policy is not None
    plugin.set_mixed_precision("bf16")  # as accelerate does when it has a plugin
    assert plugin.mixed_precision_policy.param_dtype is torch.bfloat16
    assert plugin.mixed_precision_policy.reduce_dtype is torch.float32
    exact = arguments(2, device_batch=4, compute={"sharding": "fsdp"})
    assert "mixed_precision_policy" not in exact.fsdp_plugin_args


def test_fsdp_checkpoints_activations_itself() -> None:
    trl = arguments(2, device_batch=4, compute={"sharding": "fsdp", "gradient_checkpointing": True})
    assert not trl.activation_checkpointing
    assert FullyShardedDataParallelPlugin(**trl.fsdp_plugin_args).activation_checkpointing
    alone = arguments(compute={"gradient_checkpointing": True})
    assert alone.activation_checkpointing
    assert alone.fsdp_plugin_args is None


@pytest.mark.parametrize(("sharding", "stage"), [("zero2", 2), ("zero3", 3)])
def test_zero_is_what_accelerate_takes_it_for(monkeypatch: pytest.MonkeyPatch, sharding: Any, stage: int) -> None:
    monkeypatch.setattr("trainers.training.sharding.find_spec", lambda _: object())
    passed = sharding_arguments(ComputeConfig(sharding=sharding))
    read: Any = HfDeepSpeedConfig(passed["deepspeed"])
    assert (read.is_zero2(), read.is_zero3()) == (stage == 2, stage == 3)
    assert not read.is_offload()


def test_only_the_third_stage_gathers_weights_to_save_them() -> None:
    name = "stage3_gather_16bit_weights_on_model_save"
    assert zero_config(3)["zero_optimization"][name]
    assert name not in zero_config(2)["zero_optimization"]


def test_a_missing_deepspeed_is_said_before_it_costs_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharding, "find_spec", lambda _: None)
    with pytest.raises(ConfigError, match=r"DeepSpeed is not installed.*or set compute.sharding to fsdp"):
        sharding_arguments(ComputeConfig(sharding="zero3"))


@pytest.mark.parametrize(("seen", "used"), [(0, 0), (1, 1), (8, 1)])
def test_trl_is_told_every_setting_and_of_one_gpu_however_many_are_seen(
    monkeypatch: pytest.MonkeyPatch, seen: int, used: int
) -> None:
    """Each value differs from the library's default and from the others."""
    made: Any = SimpleNamespace(n_gpu=seen, fsdp_plugin_args=None)
    passed = dict[str, Any]()
    monkeypatch.setattr(training_arguments_module, "GRPOConfig", lambda **named: passed.update(named) or made)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: seen > 0)
    arguments(
        2,
        seed=5,
        steps=12,
        device_batch=8,
        rollout={**CONFIG["rollout"], "max_completion_tokens": 17, "temperature": 0.8},
        evaluation={"temperature": 0.7, "max_completion_tokens": 19},
        compute={"autocast": "bfloat16"},
        optimizer={
            "learning_rate": 3e-4,
            "adam_beta1": 0.81,
            "adam_beta2": 0.92,
            "adam_epsilon": 1e-7,
            "warmup_steps": 7,
            "weight_decay": 0.03,
            "max_grad_norm": 0.6,
        },
    )
    assert made._n_gpu == used
    assert passed == {
        "output_dir": "unfinished",
        "seed": 5,
        "max_steps": 12,
        "per_device_train_batch_size": 8,
        "gradient_accumulation_steps": 4,
        "steps_per_generation": 16,
        "num_generations": 8,
        "max_completion_length": 17,
        "temperature": 0.8,
        "top_p": 1.0,
        "top_k": 0,
        "shuffle_dataset": False,
        "beta": 0.0,
        "learning_rate": 3e-4,
        "lr_scheduler_type": "constant_with_warmup",
        "warmup_steps": 7,
        "adam_beta1": 0.81,
        "adam_beta2": 0.92,
        "adam_epsilon": 1e-7,
        "weight_decay": 0.03,
        "max_grad_norm": 0.6,
        "use_cpu": seen == 0,
        "bf16": True,
        **sharding_arguments(ComputeConfig()),
        "ddp_find_unused_parameters": False,
        "dataloader_pin_memory": seen > 0,
        "logging_steps": 1,
        "logging_nan_inf_filter": False,
        "save_strategy": "no",
        "report_to": "none",
        "log_level_replica": "passive",
        "disable_tqdm": True,
    }
