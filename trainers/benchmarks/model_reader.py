"""Reads what benchmarks need of a model besides its weights: prompts in tokens, texts of completions, the context."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trainers.policy.model_folder import weights_folder
from trainers.tasks.base import Completion
from trainers.tasks.prompts import chat_prompt, token_ids

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from trainers.benchmarks.job import BenchmarkSampling


class ModelReader:
    """The tokenizer and the configuration of a model, read without its weights and without running code of the folder.

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
            text = chat_prompt(self._tokenizer, text, None, {})
        return token_ids(self._tokenizer, [text], chat=sampling.chat)[0]

    def completion(self, ids: Sequence[int], ends: Sequence[int]) -> Completion:
        """Return the completion of these token ids, up to the first of the tokens that end it."""
        end = next((place for place, token in enumerate(ids) if token in ends), None)
        text: str = self._tokenizer.decode(list(ids[:end]))
        return Completion(text, len(ids) if end is None else end + 1, truncated=end is None)
