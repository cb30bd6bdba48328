"""TRL's GRPOTrainer as far as it samples and scores: problems in, judged completions and log-probabilities out.

What is TRL's: sampling itself, and log-probabilities and entropies by a fused head. Evaluations and the probe leave no
trace in training. Shapes: B sequences, T completion tokens.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
import trl.trainer.utils
from accelerate.utils import gather_object
from datasets import Dataset
from torch import Tensor
from transformers import GenerationConfig, PrinterCallback, TrainerCallback
from trl.models.utils import disable_gradient_checkpointing
from trl.trainer.grpo_trainer import GRPOTrainer

from trainers.base_evaluation import BASE_EVALUATION_SEED, base_evaluation
from trainers.checkpoints import UNFINISHED
from trainers.config import TrainingConfig
from trainers.errors import DivergedError, SamplingInterruptedError
from trainers.evaluate import Evaluation, evaluate, own_random_state
from trainers.model_folder import model_digest
from trainers.parallel import process_state
from trainers.policy import load_policy, load_tokenizer, lora, refuse
from trainers.probe_log import Sampled
from trainers.prompts import end_tokens, is_chat, token_ids
from trainers.rollouts import Group, Sample
from trainers.tasks.base import Completion, Problem, Task
from trainers.training_arguments import training_arguments


class Folders(NamedTuple):
    """Where a run reads and writes."""

    model: Path
    """Model and tokenizer to start from."""
    output: Path
    """Gets the checkpoints."""
    cache: Path
    """Shared between runs."""


class SamplingTrainer(GRPOTrainer):
    """A policy that completes and scores.

    Args:
        stopping: asked while sampling; once it is true sampling ends with SamplingInterruptedError.
    """

    args: Any
    model: Any

    def __init__(
        self,
        config: TrainingConfig,
        task: Task,
        folders: Folders,
        stopping: Callable[[], bool],
        callback: TrainerCallback,
    ) -> None:
        processes = process_state().num_processes
        self._config, self._task, self._folders = config, task, folders
        self._stopping, self._sampling = stopping, False
        self._characters = load_tokenizer(folders.model)
        self._chat = is_chat(config.task)
        model = load_policy(folders.model, config.model)
        if self._chat:
            own = model.generation_config.eos_token_id
            model.generation_config.eos_token_id = end_tokens(self._characters, own, chat=True)
        refuse(model, config, self._token_ids([*task.training, *task.validation]), processes)
        model.register_forward_pre_hook(self._interrupt_sampling)
        if not torch.cuda.is_available():  # its buffer is as wide as this, however small the vocabulary
            trl.trainer.utils._CHUNKED_LOGPROB_CHUNK_SIZE = min(model.config.vocab_size, 32768)
        prompts = config.steps // config.rollout.updates_per_rollout * config.rollout.prompts_per_rollout
        super().__init__(
            model=model,
            processing_class=self._characters,
            reward_funcs=_unused,
            args=training_arguments(config, folders.output / UNFINISHED, processes),
            train_dataset=Dataset.from_dict({"prompt": [""] * prompts}),  # only counts: rollouts choose their prompts
            callbacks=[callback],
            peft_config=lora(config.model.lora),
        )
        assert not self.args.use_liger_kernel, "Liger's loss would replace ours"
        self.remove_callback(PrinterCallback)
        self._rank, self._processes = self.accelerator.process_index, self.accelerator.num_processes

    def create_model_card(self, *_: Any, **__: Any) -> None:
        """Write no model card into checkpoints."""

    def any_process(self, condition: bool) -> bool:
        """Whether the condition is true in any of the processes that train together."""
        return condition if self._processes == 1 else any(gather_object([condition]))

    # completions

    def _token_ids(self, problems: Sequence[Problem]) -> list[list[int]]:
        return token_ids(self._characters, [problem.prompt for problem in problems], chat=self._chat)

    def _completion(self, ids: list[int]) -> Completion:
        ended = ids[-1] in self.eos_token_ids
        return Completion(self._characters.decode(ids[:-1] if ended else ids), len(ids), truncated=not ended)

    def _interrupt_sampling(self, *_: Any) -> None:
        if self._sampling and self._stopping():
            raise SamplingInterruptedError

    def _generate_single_turn(self, *args: Any, **kwargs: Any) -> Any:
        self._sampling = self._processes == 1  # several processes cannot break off at the same token
        try:
            return super()._generate_single_turn(*args, **kwargs)
        except RuntimeError as error:
            if "probability tensor contains" not in str(error):
                raise
            raise DivergedError(self.state.global_step, "the policy's probabilities are not finite") from error
        finally:
            self._sampling = False

    def _completed(self, prompt_ids: list[list[int]], num_generations: int = 1) -> list[list[int]]:
        """Token ids of one completion of each prompt, sampled in parts that memory allows."""
        size, completion_ids = self._config.rollout.sampling_batch or len(prompt_ids), list[list[int]]()
        for start in range(0, len(prompt_ids), size):
            sampled, _ = self._generate_single_turn(prompt_ids[start : start + size], None, {}, num_generations)
            completion_ids += sampled
        return completion_ids

    def _sampled_groups(self, indices: list[int]) -> list[Group]:
        size = self._config.rollout.completions_per_prompt
        asked = [self._task.training[index] for index in indices for _ in range(size)]
        prompt_ids = self._token_ids(asked)
        completion_ids = self._completed(prompt_ids, size)
        completions = [self._completion(ids) for ids in completion_ids]
        judgements = self._task.judge(asked, completions)
        samples = list(map(Sample, prompt_ids, completion_ids, completions, judgements))
        return [samples[start : start + size] for start in range(0, len(samples), size)]

    def _logprobs(self, model: Any, rows: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Log-probabilities and entropies (B, T) of completions, in nats, at the sampling temperature."""
        mask_BT = rows["completion_mask"]
        logprobs_BT, entropy_BT, _ = self._get_per_token_logps_and_entropies(
            model,
            torch.cat([rows["prompt_ids"], rows["completion_ids"]], dim=1),
            torch.cat([rows["prompt_mask"], mask_BT], dim=1),
            mask_BT.size(1),
            batch_size=self._config.device_batch,
            compute_entropy=True,
        )
        assert entropy_BT is not None
        return logprobs_BT, entropy_BT

    @torch.no_grad()
    def _forward(self, rows: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """The same of the present policy, without a gradient."""
        device = self.accelerator.device
        with disable_gradient_checkpointing(self.model, self.args.gradient_checkpointing_kwargs):
            return self._logprobs(self.model, {name: tensor.to(device) for name, tensor in rows.items()})

    # evaluation and probe

    def evaluation_after(self, step: int) -> Evaluation:
        """Evaluate the present weights as those after so many updates are: what is sampled depends on seed and step."""
        return self._evaluation_of_initial() if step == 0 else self._evaluation(hash((self._config.seed, step)))

    def _evaluation_of_initial(self) -> Evaluation:
        """The same for every run that starts from this model, so it is made once and kept."""
        config = self._config
        if self._processes > 1:
            return self._evaluation(BASE_EVALUATION_SEED)
        key = {
            "model": model_digest(self._folders.model),
            "weights": getattr(config.model, "weights_dtype", None),
            "task": [config.task.model_dump(mode="json"), self._task.recipe],
            "evaluation": config.evaluation.model_dump(mode="json"),
            "rollout": config.rollout.model_dump(mode="json", include={"max_completion_tokens", "sampling_batch"}),
            "compute": config.compute.model_dump(mode="json"),
        }
        compute = partial(self._evaluation, BASE_EVALUATION_SEED)
        return base_evaluation(self._folders.cache, key, compute, self._while_waiting)

    def _while_waiting(self) -> None:
        if self._stopping():
            raise SamplingInterruptedError

    def _evaluation(self, seed: int) -> Evaluation:
        with own_random_state((seed + self._rank) % 2**32):
            return evaluate(self._sampled, self._task, self._config.evaluation)

    def _sampled(self, prompts: Sequence[str]) -> list[Completion]:
        """Complete each prompt once with the evaluation's settings; each process samples its share."""
        with self._evaluation_settings():
            mine, size = prompts[self._rank :: self._processes], self._config.rollout.completions_per_rollout
            completions: list[Completion] = []
            for start in range(0, len(mine), size):
                ids = token_ids(self._characters, mine[start : start + size], chat=self._chat)
                completions += map(self._completion, self._completed(ids))
        shares = gather_object([completions]) if self._processes > 1 else [completions]
        return [shares[place % self._processes][place // self._processes] for place in range(len(prompts))]

    @contextmanager
    def _evaluation_settings(self) -> Generator[None]:
        """Sample as `config.evaluation` says, with the model in evaluation mode."""
        settings, training = self._config.evaluation, self.model.training
        config, kwargs = self.generation_config, self.generation_kwargs
        self.generation_kwargs = {**kwargs, "temperature": settings.temperature, "top_p": settings.top_p}
        if settings.max_completion_tokens is not None:
            self.generation_kwargs["max_new_tokens"] = settings.max_completion_tokens
        self.generation_config = GenerationConfig(**self.generation_kwargs, disable_compile=True)
        self.model.eval()
        try:
            yield
        finally:
            self.generation_config, self.generation_kwargs = config, kwargs
            self.model.train(training)

    def _probe_completions(self, number: int) -> Sampled:
        problems = self._task.training
        prompt_ids = self._token_ids([problems[index % len(problems)] for index in range(number)])
        with own_random_state(0):
            return prompt_ids, self._completed(prompt_ids)


def _unused(**_: Any) -> list[float | None]:
    raise AssertionError("TRL's rewards are not used")
