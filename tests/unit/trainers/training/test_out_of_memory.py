"""Out-of-memory errors: which are, in which phase, and what helps."""

import re
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
    outer = RuntimeError("the engine did not start")
    outer.__cause__ = error
    assert is_out_of_memory(outer) is expected


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
    assert phase_of(MemoryError()) == "loading"  # before training


def config(**changes: Any) -> TrainingConfig:
    model = {"name": "pretrained", "model": "qwen"}
    return TrainingConfig.model_validate({"model": model} | changes)


LORA = {"name": "pretrained", "model": "qwen", "lora": {}}
KL = {"kl": {"coefficient": 0.1}}
VLLM = {"engine": {"name": "vllm", "memory_share": 0.4}, "max_completion_tokens": 12}
NOTHING_LARGE = {"device_batch": 1, "compute": {"gradient_checkpointing": True, "sharding": "fsdp"}, "model": LORA}
HIGHER, LOWER = (f"a {side} rollout.engine.memory_share (now 0.4)" for side in ("higher", "lower"))


@pytest.mark.parametrize(
    ("phase", "changes", "text", "helps", "others"),
    [
        ("update", {}, "", ["a smaller device_batch (now 64)", "gradient_checkpointing", "LoRA"], ["terms.kl"]),
        ("update", NOTHING_LARGE, "", ["a shorter rollout.max_completion_tokens (now 12)"], ["; what helps: a s.*;"]),
        ("update", {"terms": KL}, "", ["terms.kl.coefficient: 0 (now 0.1), without the copy"], ["sharding"]),
        ("update", {"terms": KL, "model": LORA}, "", [], ["terms.kl"]),  # there is no second model
        ("sampling", {"rollout": VLLM}, "", [HIGHER], [LOWER]),
        ("update", {"rollout": VLLM}, "", [LOWER], [HIGHER]),
        ("loading", {"rollout": VLLM}, TOO_LONG, [HIGHER], [LOWER]),
        ("sampling", {}, "", ["a smaller rollout.sampling_batch (now a whole round)"], []),
        ("evaluation", {"rollout": VLLM}, "", [], ["sampling_batch"]),
    ],
)
def test_remedies_are_settings_that_can_still_help(
    phase: str, changes: dict[str, Any], text: str, helps: list[str], others: list[str]
) -> None:
    advice = message(phase, config(**changes), text)
    assert [remedy for remedy in helps if remedy not in advice] == []
    assert [other for other in others if re.search(other.replace("(", r"\(").replace(")", r"\)"), advice)] == []


def test_the_phase_comes_first_and_the_first_line_of_the_error_last() -> None:
    advice = message("update", config(), "CUDA out of memory.\nmore of it")
    assert advice.startswith("out of memory in an update; what helps: ")
    assert advice.endswith(" (CUDA out of memory.)")
