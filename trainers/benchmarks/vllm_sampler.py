"""Samples completions of a model folder by vLLM, in this process, with a seed for each completion."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, Final

from trainers.benchmarks.sampler import ModelReader
from trainers.errors import StoppedError
from trainers.tasks.prompts import end_tokens

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from trainers.benchmarks.job import BenchmarkSampling
    from trainers.config import VLLMEngine
    from trainers.tasks.base import Completion

_ENGINE_IN_THIS_PROCESS: Final = ("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
"""Then vLLM batches the same requests in the same way each time, and a copy on one GPU ends with this process."""


class VLLMSampler(ModelReader):
    """A model in vLLM, on the number of this process's GPUs that the run's engine gives one copy.

    Args:
        folder: a whole model.
        engine: the run's settings, of which its share of memory and its GPUs hold here.
        longest: length of the longest prompt with its completion, in tokens.
        at_once: largest number of completions that are sampled at the same time.
        stopping: called before every token; true ends `sample`.
    """

    def __init__(
        self, folder: Path, engine: VLLMEngine, dtype: str, longest: int, at_once: int, stopping: Callable[[], bool]
    ) -> None:
        os.environ.setdefault(*_ENGINE_IN_THIS_PROCESS)
        from vllm import LLM  # pyright: ignore[reportMissingImports] comes with the gpu extra

        from trainers.process.random_state import own_random_state
        from trainers.rollouts.vllm_engine import step_after

        super().__init__(folder)
        path = folder / "generation_config.json"
        settings = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        self._own_ends: int | list[int] | None = settings.get(
            "eos_token_id", getattr(self._config, "eos_token_id", None)
        )

        def stop() -> None:
            if stopping():
                raise StoppedError("stopped while sampling")

        with own_random_state(0):  # vLLM seeds all generators of this process
            self._llm: Any = LLM(
                model=str(folder),
                dtype=dtype,
                seed=0,
                tensor_parallel_size=engine.tensor_parallel,
                gpu_memory_utilization=engine.memory_share,
                max_model_len=longest,
                max_num_seqs=at_once,
                generation_config="vllm",  # not the model's own settings, which would join ours unseen
                model_impl="vllm",
                trust_remote_code=False,
            )
        self._llm.llm_engine.step = step_after(stop, self._llm.llm_engine.step)

    def sample(
        self, prompts: Sequence[Sequence[int]], sampling: BenchmarkSampling, seeds: Sequence[int]
    ) -> list[Completion]:
        """Sample one completion of each prompt from its own seed.

        What else is sampled at the same time changes a completion only by the rounding of vLLM's kernels.

        Raises: StoppedError, if `stopping()` becomes true meanwhile.
        """
        from vllm import SamplingParams  # pyright: ignore[reportMissingImports]

        ends = end_tokens(self._tokenizer, self._own_ends, chat=sampling.chat)
        settings = [
            SamplingParams(
                n=1,
                temperature=sampling.temperature,
                top_p=sampling.top_p,
                max_tokens=sampling.max_tokens,
                stop_token_ids=ends,
                seed=seed,
                detokenize=False,
            )
            for seed in seeds
        ]
        requests = [{"prompt_token_ids": list(prompt)} for prompt in prompts]
        answers = self._llm.generate(requests, settings, use_tqdm=False)
        return [self.completion(answer.outputs[0].token_ids, ends) for answer in answers]
