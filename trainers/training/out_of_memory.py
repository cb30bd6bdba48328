"""Recognises errors of memory that ran out, with the phase of the run and the remedies. Imports no torch."""

from traceback import walk_tb
from typing import Final

from trainers.config import TrainingConfig, VLLMEngine
from trainers.errors import EngineError, causes

OUT_OF_MEMORY: Final = "OUT_OF_MEMORY"
_SMALL_SHARE: Final = (
    "No available memory for the cache blocks",  # memory_share holds the weights and nothing else
    "larger than the available KV cache",  # it holds no completion of the greatest length
)
"""Parts of vLLM's errors when memory_share is too small for it, whatever is free beside it."""
_ERROR_TEXTS: Final = (
    *_SMALL_SHARE,
    "out of memory",
    "ALLOC_FAILED",  # cuBLAS, cuDNN, cuSOLVER
    "DefaultCPUAllocator",
    "annot allocate memory",
    "desired GPU memory utilization",  # vLLM: others hold what memory_share asks for
)
_FUNCTIONS: Final = {
    "measurement": {"measure_model"},
    "checkpoint": {"_save_checkpoint", "publish_checkpoint", "_keep_best"},
    "evaluation": {"evaluate", "evaluation_after"},
    "sampling": {"_generate_single_turn", "_completed"},
    "loading": {"_prepare_for_training", "_load_from_checkpoint", "_load_optimizer_and_scheduler"},
    "update": {"_inner_training_loop", "_forward"},
}
"""Functions that run in each phase; a phase may contain a later one of these, as an evaluation contains sampling."""
_WORDS: Final = {
    "measurement": "while measuring the model on benchmarks",
    "loading": "while loading the model",
    "sampling": "while sampling completions",
    "scoring": "in a forward pass over completions",
    "update": "in an update",
    "evaluation": "in an evaluation",
    "checkpoint": "while saving a checkpoint",
}


def is_out_of_memory(error: BaseException) -> bool:
    """Tell whether an error, or one of its causes, means that no memory was left."""
    for link in causes(error):
        if isinstance(link, MemoryError) or type(link).__name__ == "OutOfMemoryError":
            return True
        readable = isinstance(link, RuntimeError | OSError | ValueError | EngineError)
        if readable and any(text in str(link) for text in _ERROR_TEXTS):
            return True
    return False


def phase_of(error: BaseException) -> str:
    """Name the phase in which the error was raised, by the functions in its traceback."""
    functions_at_work = {frame.f_code.co_name for link in causes(error) for frame, _ in walk_tb(link.__traceback__)}
    return next((phase for phase, functions in _FUNCTIONS.items() if functions & functions_at_work), "loading")


def message(phase: str, config: TrainingConfig, error_text: str = "") -> str:
    """Say where memory ran out and what helps there; the first line of `error_text` is quoted."""
    first_line = error_text.strip().partition("\n")[0][:300]
    small_share = any(text in error_text for text in _SMALL_SHARE)
    remedies = _remedies("sampling" if small_share else phase, config)  # vLLM lacks memory for sampling
    where, quoted = _WORDS.get(phase, "before the first update"), f" ({first_line})" if first_line else ""
    return f"out of memory {where}; what helps: {'; '.join(remedies)}{quoted}"


def _remedies(phase: str, config: TrainingConfig) -> list[str]:
    """List the settings that make this phase need less, with their present values."""
    rollout, engine, compute = config.rollout, config.rollout.engine, config.compute
    vllm = engine if isinstance(engine, VLLMEngine) else None
    shorter = f"a shorter rollout.max_completion_tokens (now {rollout.max_completion_tokens})"
    batch = f"a smaller rollout.sampling_batch (now {rollout.sampling_batch or 'a whole round'})"
    share = [f"a lower rollout.engine.memory_share (now {vllm.memory_share:g})"] if vllm else []
    smaller = ["LoRA adapters (model.lora)"] if config.model.lora is None else []
    whole = compute.sharding == "none" and not config.copies_initial_model  # which cannot be sharded
    sharding = ["compute.sharding fsdp or zero3 on several GPUs (resources.gpus)"] if whole else []
    kl = f"terms.kl.coefficient: 0 (now {config.terms.kl.coefficient:g}), without the copy of the initial model"
    single = [kl] if config.copies_initial_model else []
    match phase:
        case "measurement":
            fewer = "fewer completions at a time (batch in the request)"
            return [*(share or [fewer]), "shorter completions (longest in the request)"]
        case "loading":
            return [*share, *sharding, *smaller, *single, "a smaller model"]
        case "sampling" if vllm:
            return [f"a higher rollout.engine.memory_share (now {vllm.memory_share:g})", shorter, *smaller]
        case "sampling":
            return [batch, shorter]
        case "evaluation":
            length = config.evaluation.max_completion_tokens
            longest = f"a shorter evaluation.max_completion_tokens (now {length})" if length else shorter
            evaluated = f"a smaller evaluation.sampling_batch (now {config.evaluation.sampling_batch})"
            return [*share, longest] if vllm else [evaluated, longest]
        case "checkpoint":
            return [*smaller, *share, "more memory on the machine"]
        case _:
            rows = [f"a smaller device_batch (now {config.device_batch})"] if config.device_batch > 1 else []
            recompute = [] if compute.gradient_checkpointing else ["compute.gradient_checkpointing: true"]
            return [*rows, *recompute, *smaller, *single, *sharding, *share, shorter]
