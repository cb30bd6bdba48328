"""Samples by vLLM: TRL's `VLLMGeneration` with our seeds, an exact merge of adapters, and a stop when asked.

On GPUs of training vLLM runs inside the trainer's processes (colocate), else in a server of its own
(`trainers.rollouts.rollout_server`). Either way it samples from a copy of the weights, sent when they have changed.
"""

import math
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, Final, cast

import torch
from accelerate.utils import is_peft_model
from peft.tuners.tuners_utils import BaseTunerLayer
from torch import Tensor, nn
from trl.generation import vllm_generation
from trl.generation.vllm_generation import VLLMGeneration

from trainers.config import EngineConfig, TrainingConfig, VLLMEngine
from trainers.errors import ConfigError
from trainers.process.random_state import own_random_state
from trainers.rollouts.rollout_server import Address

MOST_AT_ONCE: Final = 1024
"""Number of completions that one copy of vLLM samples at the same time; further ones wait."""


def refuse_missing(engine: EngineConfig) -> None:
    """Refuse vLLM on a machine that cannot run it.

    Raises: ConfigError, if the engine is vLLM, and it is not installed or has no device.
    """
    if not isinstance(engine, VLLMEngine):
        return
    if not vllm_generation.is_vllm_available():
        raise ConfigError(
            "rollout.engine vllm: vLLM is not installed; install it with pip install 'sweep-service[gpu]' (or from "
            "requirements-gpu.lock), or set rollout.engine.name to transformers"
        )
    from vllm.platforms import current_platform  # pyright: ignore[reportMissingImports] comes with the gpu extra

    if not torch.cuda.is_available() and not current_platform.is_cpu():
        raise ConfigError(
            "rollout.engine vllm: this process sees no CUDA device; give trials GPUs (resources.gpus), or set "
            "rollout.engine.name to transformers"
        )


def vllm_version() -> str:
    """Return the version of the vLLM that is installed."""
    import vllm  # pyright: ignore[reportMissingImports]

    return str(vllm.__version__)


def engine_problems(config: TrainingConfig, model: Any, longest_prompt: int) -> list[str]:
    """List the reasons why vLLM cannot sample from this model as configured that vLLM itself would report too late.

    Args:
        longest_prompt: length of the longest prompt of training and validation, in tokens.
    """
    engine = config.rollout.engine
    if not isinstance(engine, VLLMEngine):
        return []
    needed, heads = longest_prompt + config.longest_completion, model.config.num_attention_heads
    context: int = getattr(model.config, "max_position_embeddings", None) or needed
    problems = list[str]()
    if engine.max_length is not None and not needed <= engine.max_length <= context:
        problems.append(
            f"rollout.engine.max_length {engine.max_length}: the longest prompt and completion have {needed} tokens, "
            f"and the model's context {context}; give a number between them, or null"
        )
    if heads % engine.tensor_parallel:
        problems.append(
            f"rollout.engine.tensor_parallel {engine.tensor_parallel} does not divide the model's {heads} attention "
            "heads"
        )
    return problems


def engine_arguments(config: TrainingConfig, longest_prompt: int, processes: int) -> dict[str, Any]:
    """Return the arguments of `VLLMGeneration` besides the model."""
    engine, rollout = config.rollout.engine, config.rollout
    assert isinstance(engine, VLLMEngine)
    sequences = rollout.completions_per_rollout // processes * engine.tensor_parallel
    return {
        "mode": engine.mode,
        "tensor_parallel_size": engine.tensor_parallel,
        "gpu_memory_utilization": engine.memory_share,
        "max_model_length": engine.max_length or longest_prompt + config.longest_completion,
        "max_num_seqs": min(sequences, MOST_AT_ONCE),
        "enable_sleep_mode": engine.sleep,
        "model_impl": "vllm",
        "trust_remote_code": False,
        "logprobs": 0,  # of the sampled token alone
    }


class VLLM(VLLMGeneration):
    """Samples from a copy of the policy.

    Args:
        arguments: from `engine_arguments`.
        end_tokens: token ids that end a completion, whatever the model's folder says.
        server: address of the server; None with colocate.
        while_sampling: called before every token of a colocated single process; what it raises ends the sampling.
    """

    llm: Any

    def __init__(
        self,
        model: Any,
        accelerator: Any,
        tokenizer: Any,
        arguments: Mapping[str, Any],
        *,
        end_tokens: Sequence[int],
        server: Address | None,
        while_sampling: Callable[[], None],
    ) -> None:
        places = {} if server is None else server._asdict()
        with own_random_state(0):  # vLLM seeds all generators of this process with the same number for every run
            super().__init__(
                model,
                accelerator,
                tokenizer,
                **arguments,
                **places,
                generation_kwargs={"stop_token_ids": list(end_tokens)},
            )
        self._sent_step: int | None = None
        if self.mode == "colocate" and accelerator.num_processes == 1:
            engine = self.llm.llm_engine
            engine.step = step_after(while_sampling, engine.step)

    def complete(
        self,
        prompt_ids: list[list[int]],
        num_generations: int,
        sampling: Mapping[str, Any],
        *,
        step: int,
        seed: Callable[[int], int],
    ) -> tuple[list[list[int]], list[list[float]]]:
        """Sample one completion of each prompt: its token ids and log-probabilities in nats, NaN where vLLM has none.

        Every process calls this with as many prompts as the others.

        Args:
            num_generations: number of times that each prompt stands in a row in `prompt_ids`.
            sampling: `temperature`, `top_p` and `max_new_tokens`, by Transformers' names.
            step: number of updates that the model has had; the weights are sent if it has changed since the last call.
            seed: returns the seed of what the n-th copy of a colocated vLLM draws; a server's own generator goes on.
        """
        if step != self._sent_step:
            self.sync_weights()
            self._sent_step = step
        self.temperature, self.top_p = sampling["temperature"], sampling["top_p"]
        self.max_completion_length = sampling["max_new_tokens"]
        # Processes that share one copy must draw the same. A seed of each request, as vLLM offers, would give all
        # completions of a prompt the same text, for TRL hands out one set of settings to all requests.
        copy = self.accelerator.process_index // self.tensor_parallel_size
        with own_random_state(seed(copy)):
            _, completion_ids, logprobs, _ = self.generate(prompt_ids, None, num_generations)
        values = [[math.nan if token[0] is None else token[0] for token in row] for row in logprobs or []]
        return [list(ids) for ids in completion_ids], values

    def _iter_named_params(self) -> Generator[tuple[str, Tensor]]:
        """Add adapters to copies of the weights, unlike TRL: merged and unmerged in place the base would drift."""
        if is_peft_model(self.model) and not self._dist.is_fsdp and not self._dist.is_zero3:
            return merged_parameters(self.model)
        return cast("Generator[tuple[str, Tensor]]", super()._iter_named_params())


def step_after(before: Callable[[], None], step: Callable[[], Any]) -> Callable[[], Any]:
    """Return a step of vLLM's engine, which makes a token of each sequence, with a call before it."""

    def both() -> Any:
        before()
        return step()

    return both


@torch.no_grad()
def merged_parameters(model: Any) -> Generator[tuple[str, Tensor]]:
    """Yield the parameters of a model with its LoRA adapters merged in, one at a time."""
    adapted: dict[str, Any] = {
        f"{name}.base_layer.weight": module
        for name, module in cast("nn.Module", model).named_modules()
        if isinstance(module, BaseTunerLayer)
    }
    for name, parameter in model.named_parameters():
        if model.prefix in name:
            continue
        value = parameter.data
        if layer := adapted.get(name):
            (adapter,) = layer.active_adapters
            value = value + layer.get_delta_weight(adapter).to(value.dtype)
        yield name.removeprefix("base_model.model.").replace(".base_layer", ""), value
