"""A stand-in for vLLM's `LLM`, so that TRL's `VLLMGeneration` and our trainer run for real without a GPU.

It does what costs vLLM's users time: it seeds all generators of the process when it starts, draws from them where a
request has no seed, loses its weights in its sleep, samples in bfloat16, and knows only the end tokens that it is told.
"""

import os
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM
from trl.generation import vllm_generation


@dataclass(frozen=True, kw_only=True)
class SamplingParams:
    n: int
    repetition_penalty: float = 1.0
    temperature: float
    top_p: float
    top_k: int = 0
    min_p: float = 0.0
    max_tokens: int
    logprobs: int | None = None
    stop_token_ids: list[int]
    seed: int | None = None
    detokenize: bool = True


@dataclass
class StandIn:
    """All engines that were made, and what was asked of them."""

    engines: list["LLM"] = field(default_factory=list)
    asked: list[SamplingParams] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    before_token: Callable[[], None] = lambda: None
    before_generate: Callable[["LLM"], None] = lambda _: None


def install(patch: pytest.MonkeyPatch) -> StandIn:
    """Let TRL find a vLLM."""
    made, vllm, platforms = StandIn(), ModuleType("vllm"), ModuleType("vllm.platforms")
    vllm.__dict__["__version__"] = "0.0.stand-in"
    platforms.__dict__["current_platform"] = SimpleNamespace(is_cpu=lambda: True)
    vllm.__dict__["SamplingParams"] = SamplingParams
    vllm.__dict__["LLM"] = lambda **settings: LLM(made, **settings)
    patch.setitem(sys.modules, "vllm", vllm)
    patch.setitem(sys.modules, "vllm.platforms", platforms)
    for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):  # TRL sets them and leaves them
        patch.setenv(name, os.environ.get(name, ""))
        if not os.environ[name]:
            patch.delenv(name)
    patch.setattr(vllm_generation, "is_vllm_available", lambda: True)
    patch.setattr(vllm_generation, "SamplingParams", SamplingParams, raising=False)
    patch.setattr(vllm_generation, "LLM", lambda **settings: LLM(made, **settings), raising=False)
    patch.setattr(vllm_generation, "empty_cache", lambda: None)  # there is no CUDA
    return made


class LLM:
    def __init__(self, standin: StandIn, **settings: Any) -> None:
        self.settings, self._standin = settings, standin
        random.seed(settings["seed"])
        np.random.seed(settings["seed"])
        torch.manual_seed(settings["seed"])
        self.model: Any = AutoModelForCausalLM.from_pretrained(settings["model"], dtype=torch.bfloat16)
        worker = SimpleNamespace(model_runner=SimpleNamespace(model=SimpleNamespace(load_weights=self._load)))
        self.llm_engine = SimpleNamespace(
            model_executor=SimpleNamespace(driver_worker=worker), step=lambda: self._step()
        )
        standin.engines.append(self)

    def _load(self, weights: list[tuple[str, torch.Tensor]]) -> None:
        own = dict(self.model.named_parameters())
        for name, value in weights:
            own[name].data.copy_(value)
        if len(self._standin.calls) == 0 or self._standin.calls[-1] != "load":
            self._standin.calls.append("load")

    def sleep(self, level: int) -> None:
        assert level == 2
        self._standin.calls.append("sleep")
        for parameter in self.model.parameters():
            parameter.data.fill_(torch.nan)

    def wake_up(self, tags: list[str]) -> None:
        self._standin.calls.append(f"wake {','.join(tags)}")

    def reset_prefix_cache(self) -> None:
        self._standin.calls.append("reset")

    def generate(
        self,
        prompts: list[dict[str, list[int]]],
        sampling_params: SamplingParams | list[SamplingParams],
        use_tqdm: bool,
    ) -> Any:
        each = sampling_params if isinstance(sampling_params, list) else [sampling_params] * len(prompts)
        self._standin.asked += sampling_params if isinstance(sampling_params, list) else [sampling_params]
        self._standin.before_generate(self)
        self._standin.calls.append(f"generate {len(prompts)}")
        self._open = [
            _Request(prompt["prompt_token_ids"], params, _generator(params))
            for prompt, params in zip(prompts, each, strict=True)
        ]
        longest = max(len(request.prompt) + request.params.max_tokens for request in self._open)
        assert longest <= self.settings["max_model_len"]
        requests = list(self._open)
        while self._open:
            self.llm_engine.step()
        return [SimpleNamespace(prompt_token_ids=request.prompt, outputs=[request]) for request in requests]

    @torch.no_grad()
    def _step(self) -> None:
        self._standin.before_token()
        for request in self._open:
            ids = torch.tensor([request.prompt + request.token_ids])
            logits = self.model(ids).logits[0, -1].float() / request.params.temperature
            logprobs = _cut(logits.log_softmax(-1), request.params.top_p)
            token = int(torch.multinomial(logprobs.exp(), 1, generator=request.generator))
            request.token_ids.append(token)
            request.logprobs.append({token: SimpleNamespace(logprob=float(logprobs[token]), rank=1)})
        self._open = [
            request
            for request in self._open
            if request.token_ids[-1] not in request.params.stop_token_ids
            and len(request.token_ids) < request.params.max_tokens
        ]


@dataclass
class _Request:
    prompt: list[int]
    params: SamplingParams
    generator: torch.Generator | None
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[dict[int, Any]] = field(default_factory=list)


def _generator(params: SamplingParams) -> torch.Generator | None:
    """None: the process's own."""
    return None if params.seed is None else torch.Generator().manual_seed(params.seed)


def _cut(logprobs: torch.Tensor, top_p: float) -> torch.Tensor:
    if top_p == 1:
        return logprobs
    ordered, places = logprobs.sort(descending=True)
    outside = ordered.exp().cumsum(-1) - ordered.exp() >= top_p
    return logprobs.index_fill(0, places[outside], -torch.inf).log_softmax(-1)
