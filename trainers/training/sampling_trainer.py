"""TRL's GRPOTrainer as far as it samples and scores: problems in, judged completions and log-probabilities out.

TRL samples by Transformers, or by vLLM (`trainers.rollouts.vllm_engine`), and computes log-probabilities and entropies
with a fused head. Evaluations and the sampling of frozen completions leave no trace in training.
Shapes: B sequences, T completion tokens.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import torch
import trl.trainer.utils
from accelerate.utils import gather_object
from datasets import Dataset
from torch import Tensor
from transformers import GenerationConfig, PrinterCallback, TrainerCallback
from trl.models.utils import disable_gradient_checkpointing
from trl.trainer.grpo_trainer import GRPOTrainer

from trainers.config import TrainingConfig, VLLMEngine
from trainers.errors import DivergedError, SamplingInterruptedError, StoppedError
from trainers.evaluation.evaluate import EvaluationResult, base_evaluation, evaluate
from trainers.policy.checkpoints import UNFINISHED
from trainers.policy.load_policy import load_policy, load_tokenizer, lora, refuse
from trainers.policy.model_folder import model_digest
from trainers.process.parallel import process_state, shared
from trainers.process.random_state import own_random_state
from trainers.process.seeds import BASE_EVALUATION_SEED, DERIVATION, derived_seed
from trainers.rollouts import logprob_check
from trainers.rollouts.rollout import Group, Sample
from trainers.rollouts.rollout_server import RolloutServer, server_command, server_environment
from trainers.rollouts.vllm_engine import VLLM, engine_arguments, engine_problems, refuse_missing, vllm_version
from trainers.tasks.base import Completion, Judgement, Problem, Task
from trainers.tasks.prompts import end_tokens, is_chat, token_ids
from trainers.training.sharding import whole_weights
from trainers.training.training_arguments import training_arguments

_CHECKED_PROBLEMS: Final = 256
"""Number of problems among which the shortest and the longest prompts are checked."""


class Folders(NamedTuple):
    """The directories that a run reads and writes."""

    model: Path
    """Folder of the model and tokenizer from which training starts."""
    output: Path
    """Folder for the checkpoints."""
    cache: Path
    """Folder that runs share: models, data, evaluations of initial models."""


class SampledTokens(NamedTuple):
    """Token ids of a completion and, if the engine reports them, their log-probabilities in nats."""

    ids: list[int]
    logprobs: list[float] | None


class SamplingTrainer(GRPOTrainer):
    """Samples, judges and scores completions of a policy; `PolicyTrainer` trains it.

    Args:
        stopping: called while sampling; once it is true, sampling ends with SamplingInterruptedError.
    """

    args: Any
    eos_token_ids: Any
    generation_kwargs: Any
    model: Any

    def __init__(
        self,
        config: TrainingConfig,
        task: Task,
        folders: Folders,
        stopping: Callable[[], bool],
        callback: TrainerCallback,
    ) -> None:
        refuse_missing(config.rollout.engine)
        processes = process_state().num_processes
        self._config, self._task, self._folders = config, task, folders
        self._stopping, self._sampling = stopping, False
        self._tokenizer = load_tokenizer(folders.model)
        self._chat = is_chat(config.task)
        model = load_policy(folders.model, config.model)
        if self._chat:
            own = model.generation_config.eos_token_id
            model.generation_config.eos_token_id = end_tokens(self._tokenizer, own, chat=True)
        prompt_ids = self._token_ids([*task.training, *task.validation])
        longest = max(map(len, prompt_ids))
        refuse(model, config, prompt_ids, engine_problems(config, model, longest))
        model.register_forward_pre_hook(self._before_forward)
        if not torch.cuda.is_available():  # its buffer is as wide as this, however small the vocabulary
            trl.trainer.utils._CHUNKED_LOGPROB_CHUNK_SIZE = min(model.config.vocab_size, 32768)
        prompts = config.steps // config.rollout.updates_per_rollout * config.rollout.prompts_per_rollout
        super().__init__(
            model=model,
            processing_class=self._tokenizer,
            reward_funcs=_unused_reward,
            args=training_arguments(config, folders.output / UNFINISHED, processes),
            train_dataset=Dataset.from_dict({"prompt": [""] * prompts}),  # only counts: rollouts choose their prompts
            callbacks=[callback],
            peft_config=lora(config.model.lora),
        )
        assert not self.args.use_liger_kernel, "Liger's loss would replace ours"
        self.remove_callback(PrinterCallback)
        self._rank, self._processes = self.accelerator.process_index, self.accelerator.num_processes
        self._server: RolloutServer | None = None
        self.vllm_generation = self._vllm(longest) if isinstance(config.rollout.engine, VLLMEngine) else None

    def create_model_card(self, *_: Any, **__: Any) -> None:
        """Write no model card into checkpoints."""

    def any_process(self, condition: bool) -> bool:
        """Tell whether the condition is true in any of the processes that train together."""
        return any(gather_object([condition]))

    # vLLM

    def _vllm(self, longest_prompt: int) -> VLLM:
        engine, arguments = self._config.rollout.engine, engine_arguments(self._config, longest_prompt, self._processes)
        assert isinstance(engine, VLLMEngine)
        if engine.mode == "server" and self.accelerator.is_main_process:
            model, length, seed = self._folders.model, arguments["max_model_length"], self._config.seed
            self._server = RolloutServer(
                lambda address: server_command(engine, model, length, seed, address),
                server_environment(),
                self._folders.output / "vllm.log",
                self._stop_if_asked,
            )
        return VLLM(
            self.model,
            self.accelerator,
            self._tokenizer,
            arguments,
            end_tokens=self.eos_token_ids,
            server=self._server and self._server.address,
            while_sampling=self._interrupt_if_asked,
        )

    def _stop_if_asked(self) -> None:
        if self._stopping():
            raise StoppedError

    def _interrupt_if_asked(self) -> None:
        if self._stopping():
            raise SamplingInterruptedError

    def end_server(self) -> None:
        """End vLLM's server, if this process has one."""
        if self._server is not None:
            self._server.close()

    # completions

    def _token_ids(self, problems: Sequence[Problem]) -> list[list[int]]:
        return token_ids(self._tokenizer, [problem.prompt for problem in problems], chat=self._chat)

    def _completion(self, ids: list[int]) -> Completion:
        ended = ids[-1] in self.eos_token_ids
        return Completion(self._tokenizer.decode(ids[:-1] if ended else ids), len(ids), truncated=not ended)

    def _before_forward(self, *_: Any) -> None:
        if self._sampling:
            self._interrupt_if_asked()

    def _generate_single_turn(
        self, prompt_ids: Any, images: Any, fields: Any, num_generations: Any, *args: Any, seed: int, **kwargs: Any
    ) -> Any:
        if self.vllm_generation is not None:
            step, copy_seed = self.state.global_step, partial(derived_seed, seed, "copy")
            return self.vllm_generation.complete(
                prompt_ids, num_generations, self.generation_kwargs, step=step, seed=copy_seed
            )
        with self._generating():
            return super()._generate_single_turn(prompt_ids, images, fields, num_generations, *args, **kwargs)

    @contextmanager
    def _generating(self) -> Generator[None]:
        """Let Transformers sample in this block, which ends when asked.

        Raises: SamplingInterruptedError; DivergedError, if the policy is not finite.
        """
        self._sampling = self._processes == 1  # several processes cannot break off at the same token
        try:
            with whole_weights(self.model):
                yield
        except RuntimeError as error:
            if "probability tensor contains" not in str(error):
                raise
            raise DivergedError(self.state.global_step, "the policy's probabilities are not finite") from error
        finally:
            self._sampling = False

    def _completed(
        self, prompt_ids: list[list[int]], batch: int | None, seed: int, num_generations: int = 1
    ) -> list[SampledTokens]:
        """Sample one completion of each prompt.

        Args:
            batch: number of completions sampled at a time; None: all.
            seed: seeds what vLLM draws; Transformers draws from torch's generator.
            num_generations: number of times that each prompt stands in a row.
        """
        size, completed = batch or len(prompt_ids), list[SampledTokens]()
        if self.vllm_generation is not None:
            size = -(-size // num_generations) * num_generations  # it takes each prompt once
        for start in range(0, len(prompt_ids), size):
            if self.vllm_generation is not None and self.any_process(self._stopping()):
                raise SamplingInterruptedError
            part = prompt_ids[start : start + size]
            part_seed = derived_seed(seed, "part", start)
            ids, logprobs = self._generate_single_turn(part, None, {}, num_generations, seed=part_seed)
            completed += map(SampledTokens, ids, logprobs or [None] * len(ids))
        return completed

    def _sampled_groups(self, indices: list[int], seed: int) -> list[Group]:
        size = self._config.rollout.completions_per_prompt
        problems = [self._task.training[index] for index in indices for _ in range(size)]
        prompt_ids = self._token_ids(problems)
        completed = self._completed(prompt_ids, self._config.rollout.sampling_batch, seed, size)
        completions = [self._completion(tokens.ids) for tokens in completed]
        rows = zip(prompt_ids, completed, completions, self._task.judge(problems, completions), strict=True)
        samples = [Sample(ids, tokens.ids, text, judgement, tokens.logprobs) for ids, tokens, text, judgement in rows]
        return [samples[start : start + size] for start in range(0, len(samples), size)]

    def _logprobs(self, model: Any, rows: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Compute log-probabilities and entropies (B, T) of completions, in nats, at the sampling temperature."""
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
        """Compute the same for the present policy, without a gradient."""
        device = self.accelerator.device
        with disable_gradient_checkpointing(self.model, self.args.gradient_checkpointing_kwargs):
            return self._logprobs(self.model, {name: tensor.to(device) for name, tensor in rows.items()})

    def check_logprobs(self) -> dict[str, Any] | None:
        """Check on prompts of the task that padding changes nothing, and that scoring agrees with generation.

        Returns: a warning for the record; None if all is well.
        Raises: ConfigError, where they must agree and do not.
        """
        config, pad = self._config, self._tokenizer.pad_token_id
        prompt_ids = logprob_check.chosen_prompts(self._token_ids(self._task.training[:_CHECKED_PROBLEMS]))
        completion_ids, generation = [ids[-logprob_check.CHECKED_TOKENS :] for ids in prompt_ids], None
        if self.vllm_generation is None:
            completion_ids, logprobs_BT = self._generated_with_logprobs(prompt_ids)
            scores_BT, mask_BT = logprob_check.scored(prompt_ids, completion_ids, pad, self._forward)
            generation = logprob_check.gap(scores_BT, logprobs_BT, mask_BT)
        padding = logprob_check.padding_gap(prompt_ids, completion_ids, pad, self._forward)
        exact = getattr(config.model, "weights_dtype", "float32") == "float32" and config.compute.autocast == "none"
        gaps = [logprob_check.worst(gather_object([value])) for value in (padding, generation)]
        return logprob_check.judged(*gaps, exact=exact)

    @torch.no_grad()
    def _generated_with_logprobs(self, prompt_ids: list[list[int]]) -> tuple[list[list[int]], Tensor]:
        """Sample a few tokens after each prompt; return them with the log-probabilities (B, T) they were drawn by."""
        kwargs = {**self.generation_kwargs, "max_new_tokens": logprob_check.CHECKED_TOKENS}
        settings = GenerationConfig(**kwargs, output_logits=True, return_dict_in_generate=True, disable_compile=True)
        ids, mask = (
            part.to(self.accelerator.device)
            for part in logprob_check.left_padded(prompt_ids, self._tokenizer.pad_token_id)
        )
        with (
            own_random_state(0),
            self._generating(),
            disable_gradient_checkpointing(self.model, self.args.gradient_checkpointing_kwargs),
        ):
            answer = self.model.generate(input_ids=ids, attention_mask=mask, generation_config=settings)
        completions = [self._until_end(row[ids.size(1) :].tolist()) for row in answer.sequences]
        return completions, logprob_check.generated_logprobs(answer.logits, completions, settings.temperature)

    def _until_end(self, ids: list[int]) -> list[int]:
        ends = [place for place, token in enumerate(ids) if token in self.eos_token_ids]
        return ids[: ends[0] + 1] if ends else ids

    # evaluation and frozen completions

    def evaluation_after(self, step: int) -> EvaluationResult:
        """Evaluate the present weights as after `step` updates; sampling depends on the run's seed and on the step."""
        if step > 0:
            return self._evaluation(derived_seed(self._config.seed, "evaluation", step))
        # the initial model is evaluated once for all runs that start from it
        digest, recipe = model_digest(self._folders.model), self._task.recipe
        key = initial_evaluation_key(self._config, digest, recipe, self._processes)
        compute, cache = partial(self._evaluation, BASE_EVALUATION_SEED), self._folders.cache
        if self._processes > 1:
            return shared(partial(base_evaluation, cache, key, while_waiting=self._tell_waiting), compute)
        return base_evaluation(cache, key, compute, while_waiting=self._wait_for_another)

    def _wait_for_another(self) -> None:
        self._interrupt_if_asked()
        self._tell_waiting()

    def _tell_waiting(self) -> None:
        """Tell whoever watches that this run waits while another one evaluates their common initial model."""

    def _evaluation(self, seed: int) -> EvaluationResult:
        with own_random_state(derived_seed(seed, "process", self._rank)):
            return evaluate(partial(self._judged, seed=seed), self._task.validation, self._config.evaluation)

    def _judged(self, problems: Sequence[Problem], seed: int = 0) -> list[tuple[Completion, Judgement]]:
        """Complete each problem once with the evaluation's settings and judge it; each process has its share.

        Shares are filled up to equal lengths: processes that share weights, or vLLM, must sample equally often.
        """
        own = problems[self._rank :: self._processes]
        share = -(-len(problems) // self._processes)
        filled = [*own, *problems[: share - len(own)]]
        with self._evaluation_settings():
            completed = self._completed(self._token_ids(filled), self._evaluation_batch, seed)
        completions = [self._completion(tokens.ids) for tokens in completed[: len(own)]]
        pairs = list(zip(completions, self._task.judge(own, completions), strict=True))
        shares = gather_object([pairs])
        return [shares[place % self._processes][place // self._processes] for place in range(len(problems))]

    @property
    def _evaluation_batch(self) -> int | None:
        """Number of completions of an evaluation that this process samples at a time; None: all, as vLLM sees fit."""
        if self.vllm_generation is not None:
            return None
        return self._config.evaluation.sampling_batch

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


def initial_evaluation_key(
    config: TrainingConfig, model: str, recipe: Mapping[str, Any], processes: int
) -> dict[str, Any]:
    """Return all that an initial model's evaluation follows from, for JSON; no setting of training is in it.

    Args:
        model: digest of the model's folder.
        recipe: that of the task, with its problems as they are asked.
    """
    engine, evaluation = config.rollout.engine, config.evaluation
    return {
        "model": model,
        "weights": getattr(config.model, "weights_dtype", None),
        "task": [config.task.model_dump(), recipe],
        "evaluation": evaluation.model_dump(exclude={"every_steps", "probe_completions"}),
        "longest": evaluation.max_completion_tokens or config.rollout.max_completion_tokens,
        "seed_derivation": DERIVATION,
        "compute": config.compute.model_dump(),
        **({"engine": [engine.model_dump(), vllm_version()]} if isinstance(engine, VLLMEngine) else {}),
        **({"processes": processes} if processes > 1 else {}),
    }


def _unused_reward(**_: Any) -> list[float | None]:
    raise AssertionError("TRL's rewards are not used")
