"""TRL's GRPOTrainer with our rollouts, losses, statistics, evaluation and record.

What is TRL's and the Hugging Face Trainer's: sampling itself, log-probabilities by a fused head, cutting a rollout into
device batches, the optimizer's step, processes. Shapes: B sequences, P prompt tokens, T completion tokens.
"""

import resource
import time
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
from transformers import GenerationConfig, PrinterCallback
from trl.models.utils import disable_gradient_checkpointing
from trl.trainer.grpo_trainer import GRPOTrainer

from trainers.base_evaluation import BASE_EVALUATION_SEED, base_evaluation
from trainers.checkpoints import UNFINISHED, checkpoint_folder, publish, write_state
from trainers.config import TrainingConfig
from trainers.errors import CheckpointError, DivergedError, OffPolicyError, SamplingInterruptedError
from trainers.evaluate import Evaluation, evaluate, own_random_state
from trainers.inert import InertBetas
from trainers.losses import TokenBatch, Totals, objective
from trainers.losses.terms import next_coefficient
from trainers.model_folder import model_digest
from trainers.parallel import process_state
from trainers.policy import load_policy, load_tokenizer, lora, refuse
from trainers.probe_log import ProbeLog, Sampled
from trainers.random_state import RandomState
from trainers.recorder import Recorder
from trainers.rollout_stats import rollout_stats
from trainers.rollouts import (
    Collected,
    Group,
    PromptStream,
    Sample,
    as_tensors,
    collect,
    counts,
    problems_digest,
    totals,
)
from trainers.schedule import Schedule
from trainers.step_stats import StepStats
from trainers.tasks.base import Completion, Problem, Task
from trainers.training_arguments import training_arguments

_ON_POLICY_TOLERANCE_NATS: Final = 0.02


class Folders(NamedTuple):
    """Where a run reads and writes."""

    model: Path
    """Model and tokenizer to start from."""
    output: Path
    """Gets the checkpoints."""
    cache: Path
    """Shared between runs."""


class PolicyTrainer(GRPOTrainer):
    """One run, or one process's part of it. Call `run` once.

    Args:
        stopping: asked after every update, and while sampling; once it is true the run saves and ends.
        state: what the checkpoint to resume from keeps besides the model; empty for a new run.
    """

    args: Any
    model: Any

    def __init__(
        self,
        config: TrainingConfig,
        task: Task,
        folders: Folders,
        recorder: Recorder,
        stopping: Callable[[], bool],
        state: Mapping[str, Any],
    ) -> None:
        processes = process_state().num_processes
        self._config, self._task, self._folders, self._recorder = config, task, folders, recorder
        self._stopping, self._sampling, self.interrupted = stopping, False, False
        self._characters = load_tokenizer(folders.model)
        model = load_policy(folders.model, config.model)
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
            train_dataset=Dataset.from_dict(
                {"prompt": [""] * prompts}
            ),  # counts only: prompts come from a PromptStream
            callbacks=[Schedule(config, self, stopping)],
            peft_config=lora(config.model.lora),
        )
        assert not self.args.use_liger_kernel, "Liger's loss would replace ours"
        self.remove_callback(PrinterCallback)
        self._rank, self._processes = self.accelerator.process_index, self.accelerator.num_processes
        self._device_batches: int = self.args.steps_per_generation  # of a rollout
        self._prompts = PromptStream(len(task.training), config.seed, self._rank, self._processes)
        self._stats, self._window_loss = StepStats(), torch.zeros(())
        self._step_started = self._generation_s = 0.0
        self._probe = ProbeLog(config.evaluation.probe_completions)
        self._inert = InertBetas(config)
        self._restore(state)

    # state: what a checkpoint keeps besides model, optimizer and random generators

    def _restore(self, state: Mapping[str, Any]) -> None:
        if (saved := state.get("processes", self._processes)) != self._processes:
            raise CheckpointError(
                f"the checkpoint is of {saved} process(es), each with its part of the rollout, and this run has "
                f"{self._processes}; start {saved}"
            )
        self._problems = problems_digest([*self._task.training, *self._task.validation])
        if state.get("problems", self._problems) != self._problems:
            raise CheckpointError(
                "the checkpoint is of other problems than the task has now; bring back the file they were read from "
                "(and the tokenizer that told which were too long), or start a new run"
            )
        self._prompts.position = state.get("prompts_read", 0)
        self._rollout_metrics: dict[str, float | None] = state.get("rollout_metrics", {})
        self._entropy_coefficient: float = state.get(
            "entropy_coefficient", self._config.terms.entropy_bonus.coefficient
        )
        self._probe.restore(state.get("probe", {}))
        self._inert.restore(state.get("inert", {}))
        self.evaluated_step: int | None = state.get("evaluated_step")

    def _state(self) -> dict[str, Any]:
        return {
            "step": self.state.global_step,
            "processes": self._processes,
            "problems": self._problems,
            "prompts_read": self._prompts.position,
            "rollout_metrics": self._rollout_metrics,
            "entropy_coefficient": self._entropy_coefficient,
            "probe": self._probe.state,
            "inert": self._inert.state,
            "evaluated_step": self.evaluated_step,
            **self._recorder.state,
        }

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        super()._load_from_checkpoint(resume_from_checkpoint, model)
        folder = Path(resume_from_checkpoint)
        rollout = torch.load(folder / self._rollout_file, weights_only=True, map_location=self.accelerator.device.type)
        self._step, self._buffered_inputs = rollout["step"], rollout["device_batches"]
        self._probe.load(folder)

    @property
    def _rollout_file(self) -> str:
        return f"rollout-{self._rank}.pt"

    def publish_checkpoint(self) -> None:
        """Make the files that the Trainer has just written a checkpoint, with what it does not know of."""
        step = self.state.global_step
        unfinished = self._folders.output / UNFINISHED / f"checkpoint-{step}"
        unused = (
            self._buffered_inputs if self._step % self._device_batches else None
        )  # of a rollout with updates to come
        torch.save({"step": self._step, "device_batches": unused}, unfinished / self._rollout_file)
        if self.accelerator.is_main_process:
            self._probe.save(unfinished)
            write_state(unfinished, self._config, self._state())
        self.accelerator.wait_for_everyone()
        if self.accelerator.is_main_process:
            self._recorder.before_checkpoint()
            self._recorder.checkpoint(
                step, publish(unfinished, self._folders.output, step, self._config.kept_checkpoints)
            )

    def run(self, resume_from: Path | None) -> None:
        """Train to the end, or until asked to stop; then `interrupted` is true if that was during sampling."""
        try:
            self.train(resume_from_checkpoint=None if resume_from is None else str(resume_from))
        except SamplingInterruptedError:
            self.interrupted = True
            if self.state.global_step and not checkpoint_folder(self._folders.output, self.state.global_step).exists():
                self._save_checkpoint(self.model, None)
                self.publish_checkpoint()

    def create_model_card(self, *_: Any, **__: Any) -> None:
        """Write no model card into checkpoints."""

    # sampling

    def _token_ids(self, problems: Sequence[Problem]) -> list[list[int]]:
        return self._characters(text=[problem.prompt for problem in problems])["input_ids"]

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

    def any_process(self, condition: bool) -> bool:
        """Whether the condition is true in any of the processes that train together."""
        return condition if self._processes == 1 else any(gather_object([condition]))

    def _generate_and_score_completions(self, inputs: Any) -> dict[str, Any]:
        """Sample a rollout: the tensors of this process's part. The inputs only count prompts."""
        started, rollout, position = time.perf_counter(), self._config.rollout, self._prompts.position
        before = RandomState.taken()
        try:
            collected = collect(rollout, self._prompts, self._processes, self._sampled_groups, self.any_process)
        except SamplingInterruptedError:  # the checkpoint is of the state before this rollout
            before.restore()
            self._prompts.position = position
            raise
        tensors = self._scored(collected)
        self._generation_s += time.perf_counter() - started
        return tensors

    def _scored(self, collected: Collected) -> dict[str, Any]:
        rollout, device = self._config.rollout, self.accelerator.device
        pairs = [[(sample.completion, sample.judgement) for sample in group] for group in collected.groups]
        self._rollout_metrics = rollout_stats(pairs, collected.sampled, self.accelerator)
        pad = self._characters.pad_token_id
        tensors = as_tensors(collected.groups, rollout, self._config.advantage, pad, device)
        with torch.no_grad(), disable_gradient_checkpointing(self.model, self.args.gradient_checkpointing_kwargs):
            old_logprobs_BT, old_entropy_BT = self._logprobs(self.model, tensors._asdict())
        summed: Any = self.accelerator.reduce(counts(tensors, self._config.aggregation), reduction="sum")
        shares = totals(summed, rollout.updates_per_rollout, self._processes, rollout.max_completion_tokens)
        return {
            **tensors._asdict(),
            "old_logprobs": old_logprobs_BT,
            "old_entropy": old_entropy_BT,
            **{f"totals/{name}": torch.as_tensor(value) for name, value in vars(shares).items()},
        }

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

    # updates

    def training_step(self, *args: Any, **kwargs: Any) -> Tensor:
        """Run forward and backward on a device batch."""
        self._step_started = self._step_started or time.perf_counter()
        return super().training_step(*args, **kwargs)

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> Tensor:
        logprobs_BT, entropy_BT = self._logprobs(model, inputs)
        batch = TokenBatch(
            logprobs_BT,
            inputs["old_logprobs"],
            inputs["advantages"].unsqueeze(1).expand_as(logprobs_BT),
            inputs["completion_mask"],
            entropy_BT=entropy_BT,
            old_entropy_BT=inputs["old_entropy"],
            correct_B=inputs["correct"],
            active_B=inputs["active"],
            generator=self._generator(),
        )
        if self._step % self._device_batches < self.args.gradient_accumulation_steps:
            _check_on_policy(batch)
        config, params = self._config, self._config.loss.at(self.state.global_step)
        result = objective(
            batch,
            params,
            config.aggregation,
            config.terms,
            entropy_coefficient=self._entropy_coefficient,
            totals=Totals(**{name: inputs[f"totals/{name}"] for name in Totals.__annotations__}),
        )
        (gradient_BT,) = torch.autograd.grad(result.output.loss_BT.sum(), logprobs_BT, retain_graph=True)
        self._stats.add(batch, result, gradient_BT, bounds=(params.low, params.high))
        self._window_loss = result.loss.detach() + self._window_loss
        return result.loss

    def _generator(self) -> torch.Generator:
        """For a loss that draws: depends on seed and place in the run only."""
        place = hash((self._config.seed, self._step, self._rank)) % 2**63
        return torch.Generator(self.accelerator.device).manual_seed(place)

    def _clip_grad_norm(self, model: Any) -> Any:
        norm: Any = super()._clip_grad_norm(model)
        for what, value in (("gradient's norm", norm), ("loss", self._window_loss)):
            if not torch.isfinite(value):
                raise DivergedError(self.state.global_step, f"the {what} is {value.item()}")
        self._window_loss = torch.zeros(())
        return norm

    # record

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Record an optimizer update."""
        self._metrics["train"].clear()
        if "grad_norm" not in logs:  # the closing message of `train`
            return
        step, bonus = self.state.global_step, self._config.terms.entropy_bonus
        metrics = self._stats.reduced(self.accelerator, logs["learning_rate"])
        metrics |= {name: logs[name] for name in ("grad_norm", "learning_rate")}
        metrics |= {**self._rollout_metrics, **self._schedules(step), **self._times(metrics), **self._probe.take()}
        if bonus.target is not None:
            self._entropy_coefficient = next_coefficient(self._entropy_coefficient, metrics["entropy"] or 0.0, bonus)
        if self.accelerator.is_main_process:
            self._recorder.step(step, metrics)
            if warning := self._inert.after_step(step, metrics):
                self._recorder.warning(step, warning)

    def _schedules(self, step: int) -> dict[str, float | None]:
        params = self._config.loss.at(step - 1)
        return {
            "schedule/beta1": getattr(params, "beta1", None),
            "schedule/beta2": getattr(params, "beta2", None),
            "entropy_bonus/coefficient": self._entropy_coefficient,
        }

    def _times(self, metrics: Mapping[str, float | None]) -> dict[str, float | None]:
        step_s, generation_s = time.perf_counter() - self._step_started, self._generation_s
        self._step_started = self._generation_s = 0.0
        return {
            "time/generation_s": generation_s,
            "time/update_s": step_s - generation_s,
            "time/step_s": step_s,
            "tokens/per_second": (metrics["tokens/step"] or 0.0) / step_s,
            "memory/peak_mib": _peak_mib(),
        }

    # evaluation and probe: leave no trace in training

    def evaluate(self, *_: Any, **__: Any) -> dict[str, float]:
        """Sample the validation problems and record the result."""
        step = self.state.global_step
        evaluation = self._evaluation_of_initial() if step == 0 else self._evaluation(hash((self._config.seed, step)))
        self.evaluated_step = step
        if self.accelerator.is_main_process:
            self._recorder.evaluation(step, evaluation)
        metrics = {name: value for name, value in evaluation.metrics.items() if value is not None}
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
        return metrics

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
                ids = self._characters(text=list(mine[start : start + size]))["input_ids"]
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

    def make_probe(self) -> None:
        """Freeze completions of the policy that training starts from, the same for every run that starts from it."""
        self._probe.begin(self._probe_completions, self._characters.pad_token_id, self._forward)

    def _probe_completions(self, number: int) -> Sampled:
        problems = self._task.training
        prompt_ids = self._token_ids([problems[index % len(problems)] for index in range(number)])
        with own_random_state(0):
            return prompt_ids, self._completed(prompt_ids)

    def measure_probe(self) -> None:
        """Measure the policy on the frozen completions, for the record of this update."""
        self._probe.measure(self._forward)

    @torch.no_grad()
    def _forward(self, rows: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        device = self.accelerator.device
        with disable_gradient_checkpointing(self.model, self.args.gradient_checkpointing_kwargs):
            return self._logprobs(self.model, {name: tensor.to(device) for name, tensor in rows.items()})


def _unused(**_: Any) -> list[float | None]:
    raise AssertionError("TRL's rewards are not used")


def _peak_mib() -> float:
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated() / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _check_on_policy(batch: TokenBatch) -> None:
    gap = (batch.logprobs_BT.detach() - batch.old_logprobs_BT).abs().sum() / batch.mask_BT.sum().clamp(min=1)
    if gap > _ON_POLICY_TOLERANCE_NATS:
        raise OffPolicyError(
            f"log-probabilities of a fresh rollout differ by {gap.item():.3g} nats a token from those it was sampled "
            "with; is dropout active, or were weights changed during the rollout?"
        )
