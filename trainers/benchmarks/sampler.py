"""Reads a model folder for benchmarks, and samples completions with transformers' own generation."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from trainers.errors import StoppedError
from trainers.policy.model_folder import weights_folder
from trainers.tasks.base import Completion, Problem
from trainers.tasks.prompts import chat_prompts, end_tokens, token_ids

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from torch import Tensor

    from trainers.benchmarks.job import BenchmarkSampling


class ModelReader:
    """The tokenizer and the configuration of a model, read without its weights and without running code of the folder.

    It writes prompts in tokens and reads completions from them.

    Args:
        folder: a model, a checkpoint of a run, or LoRA adapters whose base model is a folder.
    Raises: ConfigError, if there is no tokenizer that can end a completion.
    """

    def __init__(self, folder: Path) -> None:
        from transformers import AutoConfig

        from trainers.policy.load_policy import load_tokenizer

        self._tokenizer = load_tokenizer(folder)
        self._config: Any = AutoConfig.from_pretrained(weights_folder(folder), trust_remote_code=False)

    @property
    def context(self) -> int | None:
        """Largest number of tokens in a prompt and its completion together; None if the model does not say."""
        return getattr(self._config, "max_position_embeddings", None)

    def prompt_ids(self, problem: str, sampling: BenchmarkSampling) -> list[int]:
        """Return the token ids of a problem's prompt."""
        text = problem + sampling.prompt_suffix
        if sampling.chat:
            (text,) = chat_prompts(self._tokenizer, [Problem(text, "")], None, {})
        return token_ids(self._tokenizer, [text], chat=sampling.chat)[0]

    def completion(self, ids: Sequence[int], ends: Sequence[int]) -> Completion:
        """Return the completion of these token ids, up to the first of the tokens that end it."""
        end = next((place for place, token in enumerate(ids) if token in ends), None)
        text: str = self._tokenizer.decode(list(ids[:end]))
        return Completion(text, len(ids) if end is None else end + 1, truncated=end is None)


class ModelSampler(ModelReader):
    """A model and its tokenizer, loaded without running code from the folder, on a GPU where there is one.

    Args:
        folder: a model, a checkpoint of a run, or LoRA adapters whose base model is a folder.
        stopping: called after every token; true ends `sample`.
    """

    def __init__(self, folder: Path, dtype: str, stopping: Callable[[], bool]) -> None:
        import torch
        from transformers import AutoModelForCausalLM
        from transformers.utils.logging import disable_progress_bar

        disable_progress_bar()
        super().__init__(folder)
        self._device = device()
        self._stopping = stopping
        self._model: Any = AutoModelForCausalLM.from_pretrained(
            folder, dtype=getattr(torch, dtype), use_safetensors=True, trust_remote_code=False
        )
        self._model.to(self._device).eval()
        self._own_ends: int | list[int] | None = self._model.generation_config.eos_token_id

    def sample(
        self, prompts: Sequence[Sequence[int]], sampling: BenchmarkSampling, seeds: Sequence[int]
    ) -> list[Completion]:
        """Sample one completion of each prompt; on a CPU the same arguments give the same completions.

        All are drawn together, from the seed of the first one.

        Raises: StoppedError, if `stopping()` becomes true meanwhile.
        """
        import torch
        from transformers import GenerationConfig, StoppingCriteriaList

        from trainers.process.random_state import own_random_state

        def stop(ids_BT: Tensor, *_: Any, **__: Any) -> Tensor:
            return torch.full((len(ids_BT),), self._stopping(), device=ids_BT.device)

        ends = end_tokens(self._tokenizer, self._own_ends, chat=sampling.chat)
        # it replaces all of the model's own settings, which `generate` would use for any that is missing
        self._model.generation_config = GenerationConfig(
            do_sample=True,
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            top_k=0,
            max_new_tokens=sampling.max_tokens,
            eos_token_id=sorted(ends),
            pad_token_id=self._tokenizer.pad_token_id,
        )
        padded: Any = self._tokenizer.pad({"input_ids": list(prompts)}, return_tensors="pt").to(self._device)
        with own_random_state(seeds[0]):
            ids_BT = self._model.generate(**padded, stopping_criteria=StoppingCriteriaList([stop]))
        if self._stopping():
            raise StoppedError("stopped while sampling")
        return [self.completion(ids, ends) for ids in ids_BT[:, padded["input_ids"].shape[1] :].tolist()]


def device() -> str:
    """Name the device that samples: cuda, or else cpu."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def has_chat_template(folder: Path) -> bool:
    """Tell whether the folder's tokenizer brings a chat template."""
    if (folder / "chat_template.jinja").exists():
        return True
    config = folder / "tokenizer_config.json"
    return config.exists() and bool(json.loads(config.read_text(encoding="utf-8")).get("chat_template"))
