"""Out-of-memory errors: which are, in which phase, and what helps."""

from typing import Any

import pytest
import torch

from trainers.config import TrainingConfig
from trainers.errors import EngineError
from trainers.training.out_of_memory import is_out_of_memory, message, phase_of

TOO_LONG = (  # vLLM 0.29 on a share of memory that holds the weights and little more
    "To serve at least one request with the model's max seq len (8192), (1.0 GiB KV cache is needed, which is larger "
    "than the available KV cache memory (0.5 GiB). Try increasing `gpu_memory_utilization`"
)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."), True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"), True),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes."), True),
        (MemoryError(), True),
        (OSError(12, "Cannot allocate memory"), True),
        (ValueError("No available memory for the cache blocks. Try increasing `gpu_memory_utilization`"), True),
        (ValueError(TOO_LONG), True),
        (EngineError(f"vLLM's server ended with exit code 1; vllm.log ends with:\n{TOO_LONG}"), True),
        (RuntimeError("probability tensor contains either inf, nan or element < 0"), False),
        (KeyError("out of memory"), False),
        (OSError(28, "No space left on device"), False),
    ],
)
def test_errors_that_say_that_memory_ran_out(error: Exception, expected: bool) -> None:
    assert is_out_of_memory(error) is expected


def test_what_caused_an_error_counts_too() -> None:
    error = RuntimeError("the engine did not start")
    error.__cause__ = MemoryError()
    assert is_out_of_memory(error)


class Run:
    """Functions called as a run's are."""

    def evaluate(self) -> None:
        self._completed()

    def _completed(self) -> None:
        self._generate_single_turn()

    def _generate_single_turn(self) -> None:
        raise MemoryError

    def _inner_training_loop(self, inner: str) -> None:
        getattr(self, inner)()

    def backward(self) -> None:
        raise MemoryError

    def _load_from_checkpoint(self) -> None:
        raise MemoryError

    def publish_checkpoint(self) -> None:
        raise MemoryError


@pytest.mark.parametrize(
    ("inner", "expected"),
    [
        ("_completed", "sampling"),
        ("evaluate", "evaluation"),
        ("backward", "update"),
        ("publish_checkpoint", "checkpoint"),
        ("_load_from_checkpoint", "loading"),
    ],
)
def test_the_phase_is_that_of_the_functions_at_work(inner: str, expected: str) -> None:
    with pytest.raises(MemoryError) as raised:
        Run()._inner_training_loop(inner)
    assert phase_of(raised.value) == expected


def test_before_training_everything_is_loading() -> None:
    with pytest.raises(MemoryError) as raised:
        raise MemoryError
    assert phase_of(raised.value) == "loading"


def config(**changes: Any) -> TrainingConfig:
    model = {"name": "pretrained", "model": "qwen"}
    return TrainingConfig.model_validate({"model": model} | changes)


def test_remedies_are_settings_that_can_still_help() -> None:
    plain = message("update", config(), "CUDA out of memory.\nmore of it")
    assert plain.startswith("out of memory in an update; what helps: a smaller device_batch (now 64); ")
    assert plain.endswith(" (CUDA out of memory.)")
    assert "gradient_checkpointing" in plain
    assert "LoRA" in plain
    small = config(
        device_batch=1,
        compute={"gradient_checkpointing": True, "sharding": "fsdp"},
        model={"name": "pretrained", "model": "qwen", "lora": {}},
    )
    assert message("update", small) == (
        "out of memory in an update; what helps: a shorter rollout.max_completion_tokens (now 12)"
    )


def test_without_a_kl_term_there_is_no_second_model() -> None:
    copied = message("update", config(terms={"kl": {"coefficient": 0.1}}))
    assert "terms.kl.coefficient: 0 (now 0.1), without the copy of the initial model" in copied
    assert "sharding" not in copied  # which would be refused
    adapters = {"name": "pretrained", "model": "qwen", "lora": {}}
    assert "terms.kl" not in message("update", config(terms={"kl": {"coefficient": 0.1}}, model=adapters))


def test_sampling_by_vllm_wants_another_share_than_training_beside_it() -> None:
    rollout = {"engine": {"name": "vllm", "memory_share": 0.4}, "max_completion_tokens": 12}
    vllm = config(rollout=rollout)
    assert "a higher rollout.engine.memory_share (now 0.4)" in message("sampling", vllm)
    assert "a lower rollout.engine.memory_share (now 0.4)" in message("update", vllm)
    assert "a smaller rollout.sampling_batch (now a whole round)" in message("sampling", config())
    assert "sampling_batch" not in message("evaluation", vllm)
    starting = message("loading", vllm, TOO_LONG)
    assert "a higher rollout.engine.memory_share (now 0.4)" in starting
    assert "a lower rollout.engine.memory_share" not in starting
