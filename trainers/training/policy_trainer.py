"""Trains the policy: our rollouts, losses, statistics, record and checkpoints on TRL's GRPOTrainer.

TRL and the Hugging Face Trainer cut a rollout into device batches, make the optimizer's steps and join the processes.
Shapes: B sequences, T completion tokens.
"""

import resource
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Final

import torch
from accelerate.utils import gather_object
from torch import Tensor
from torch.distributed.tensor import DTensor
from transformers import TrainerCallback, TrainerControl, TrainerState

from trainers.config import TrainingConfig, VLLMEngine
from trainers.config.task_config import reward_parts
from trainers.errors import CheckpointError, DivergedError, OffPolicyError, SamplingInterruptedError
from trainers.losses import TokenBatch, Totals, entropy_advantages, next_weight, objective, truncated_weights
from trainers.losses.terms import next_coefficient
from trainers.policy import checkpoints
from trainers.policy.checkpoints import UNFINISHED, checkpoint_folder
from trainers.policy.load_policy import load_reference
from trainers.process.progress import Announcer
from trainers.process.random_state import own_random_state, remembered_random_state
from trainers.process.seeds import DERIVATION, derived_seed, loss_seed
from trainers.record.frozen_probe import FrozenCompletions
from trainers.record.recorder import Recorder
from trainers.record.rollout_stats import NO_CRITIC, NO_ENGINE, engine_stats, rollout_stats
from trainers.record.step_stats import StepStats
from trainers.rollouts import logprob_check
from trainers.rollouts import rollout as rollouts
from trainers.rollouts.rollout import Collected, Group, PromptStream
from trainers.tasks.base import Task
from trainers.training.inert_betas import InertBetas
from trainers.training.sampling_trainer import Folders, SamplingTrainer
from trainers.training.value_head import Critic

_ON_POLICY_TOLERANCE_NATS: Final = 0.02


class Schedule(TrainerCallback):
    """Decides after each update whether a run evaluates, measures frozen completions, saves or stops.

    Args:
        stopping: called after every update; true ends the run after a checkpoint.
    """

    def __init__(self, config: TrainingConfig, trainer: "PolicyTrainer", stopping: Callable[[], bool]) -> None:
        self._config, self._trainer, self._stopping = config, trainer, stopping

    def on_train_begin(self, args: Any, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Evaluate the policy that training starts from, or make up for an evaluation that was interrupted."""
        self._trainer.check_model()
        if state.global_step == 0:
            self._trainer.freeze_completions()
        if self._evaluates(state.global_step) and self._trainer.evaluated_step != state.global_step:
            self._trainer.evaluate()

    def on_step_end(self, args: Any, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Set the flags that the trainer obeys after this update."""
        step = state.global_step
        rollouts, updates_into_next = divmod(step, self._config.rollout.updates_per_rollout)
        if not updates_into_next:
            self._trainer.measure_frozen_completions()
        last = step == self._config.steps
        stop = last or self._trainer.any_process(self._stopping())
        control.should_evaluate = self._evaluates(step) and (last or not stop)  # else on_train_begin makes up for it
        control.should_save = stop or (not updates_into_next and not rollouts % self._config.checkpoint_every_rollouts)
        control.should_training_stop = stop

    def on_save(self, args: Any, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Turn the files just written into a checkpoint."""
        self._trainer.publish_checkpoint()

    def _evaluates(self, step: int) -> bool:
        return step == self._config.steps or step % self._config.evaluation.every_steps == 0


class PolicyTrainer(SamplingTrainer):
    """Trains one run, or one process's part of it. Call `run` once.

    Args:
        stopping: called after every update, and while sampling; once it returns true the run saves and ends.
        state: counters from the checkpoint to resume from; empty for a new run.
        model_only: the checkpoint of the last step is the model alone, and replaces all others.
        keep_models: numbers of updates after which the model alone is kept, too.
    """

    def __init__(
        self,
        config: TrainingConfig,
        task: Task,
        folders: Folders,
        recorder: Recorder,
        stopping: Callable[[], bool],
        state: Mapping[str, Any],
        *,
        model_only: bool = False,
        keep_models: Collection[int] = (),
    ) -> None:
        super().__init__(config, task, folders, stopping, Schedule(config, self, stopping))
        self._recorder, self.interrupted, self._model_only = recorder, False, model_only
        self._reference = load_reference(folders.model, config, self.accelerator)
        self._critic = Critic(config.critic, self.model, config, self.accelerator) if config.critic else None
        self._keep_models = keep_models
        self._waiting = Announcer(recorder.events, "waiting for another run's initial evaluation", 1)
        self._batches_per_rollout: int = self.args.steps_per_generation
        self._prompts = PromptStream(len(task.training), config.seed, self._rank, self._processes)
        self._stats, self._window_loss = StepStats(), torch.zeros(())
        self._restart_clocks()
        self._frozen = FrozenCompletions()
        self._inert = InertBetas(config)
        self._engine_unseen = True
        self._restore(state)

    # checkpoints: besides model, optimizer and random generators they hold these counters, the rollout in use, and the
    # frozen completions

    def _restore(self, state: Mapping[str, Any]) -> None:
        if (saved := state.get("processes", self._processes)) != self._processes:
            raise CheckpointError(
                f"the checkpoint was written by {saved} process(es), each of which keeps its part of the rollout, and "
                f"this run has {self._processes}; start {saved}"
            )
        self._problems = rollouts.problems_digest(self._task)
        if state.get("problems", self._problems) != self._problems:
            raise CheckpointError(
                "the checkpoint was made with other problems than the task has now; bring back the file they were read "
                "from (and the tokenizer by which too long ones were left out), or start a new run"
            )
        if state and (derivation := state.get("seed_derivation")) != DERIVATION:
            raise CheckpointError(
                f"the checkpoint's seeds are derived in a way ({derivation}) that this version does not know; "
                "go on with the version that wrote it"
            )
        self._prompts.position = state.get("prompts_read", 0)
        self._rollout_metrics: dict[str, float | None] = state.get("rollout_metrics", {})
        self._entropy_coefficient: float = state.get(
            "entropy_coefficient", self._config.terms.entropy_bonus.coefficient
        )
        self._positive_weight: float = state.get(
            "positive_weight", next_weight(None, 0, None, self._config.advantage.positive_weight)
        )
        self._frozen.state |= state.get("probe", {})
        self._inert.sums |= state.get("inert", {})
        self.evaluated_step: int | None = state.get("evaluated_step")

    def _state(self) -> dict[str, Any]:
        return {
            "step": self.state.global_step,
            "processes": self._processes,
            "problems": self._problems,
            "prompts_read": self._prompts.position,
            "seed_derivation": DERIVATION,
            "rollout_metrics": self._rollout_metrics,
            "entropy_coefficient": self._entropy_coefficient,
            "positive_weight": self._positive_weight,
            "probe": self._frozen.state,
            "inert": self._inert.sums,
            "evaluated_step": self.evaluated_step,
            "model_only": self._ends_with_model_only,
            **self._recorder.state,
        }

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        """Load a checkpoint's parts besides the weights; the Trainer calls this however it shards the model."""
        super()._load_optimizer_and_scheduler(checkpoint)
        if checkpoint is None:
            return
        folder = Path(checkpoint)
        rollout = torch.load(folder / self._rollout_file, weights_only=True, map_location=self.accelerator.device.type)
        self._step, self._buffered_inputs = rollout["step"], rollout["device_batches"]
        self._frozen.load(folder)
        if self._critic is not None:
            self._critic.load(folder)

    def create_optimizer(self, model: Any = None) -> Any:
        """Make the optimizer of the policy and, where there is one, of the value head."""
        new = self.optimizer is None
        optimizer = super().create_optimizer(model)
        if new and self._critic is not None:
            self._critic.join(optimizer)
        return optimizer

    @property
    def _rollout_file(self) -> str:
        return f"rollout-{self._rank}.pt"

    @property
    def _ends_with_model_only(self) -> bool:
        """Say whether nothing is left to do, so that the model alone is to be kept."""
        last = self._config.steps
        return self._model_only and self.state.global_step == self.evaluated_step == last

    def _save_checkpoint(self, *args: Any, **kwargs: Any) -> None:
        self.args.save_only_model = self._ends_with_model_only
        super()._save_checkpoint(*args, **kwargs)

    def publish_checkpoint(self) -> None:
        """Turn the files that the Trainer has just written into a checkpoint, adding the parts that are ours."""
        step = self.state.global_step
        unfinished = self._folders.output / UNFINISHED / f"checkpoint-{step}"
        in_use = self._step % self._batches_per_rollout != 0  # whether the present rollout has updates left
        rollout = {"step": self._step, "device_batches": self._buffered_inputs if in_use else None}
        unfinished.mkdir(parents=True, exist_ok=True)  # the first process may not have come to it
        torch.save(rollout, unfinished / self._rollout_file)
        if self.accelerator.is_main_process:
            self._frozen.save(unfinished)
            if self._critic is not None and not self._ends_with_model_only:
                self._critic.save(unfinished)
            checkpoints.write_state(unfinished, self._config, self._state())
        self.accelerator.wait_for_everyone()
        if self.accelerator.is_main_process:
            self._recorder.events.sync()  # a checkpoint on disk needs its events there, too
            keep = 1 if self._ends_with_model_only else self._config.kept_checkpoints
            path = checkpoints.publish(unfinished, self._folders.output, step, keep)
            self._recorder.events.write("checkpoint", step=step, path=str(path))

    def _keep_best(self, step: int, value: float | None) -> None:
        """Keep the weights if no evaluation so far was as good. Every process takes part in saving them."""
        output, first = self._folders.output, self.accelerator.is_main_process
        best = checkpoints.find_best(output, self._config.evaluation) if first else None
        better = first and value is not None and (best is None or value > best.value)
        if not self.any_process(better):
            return
        unfinished = output / UNFINISHED / f"best-{step}"
        self.save_model(str(unfinished), _internal_call=True)
        self.accelerator.wait_for_everyone()
        if first and value is not None:
            path = checkpoints.publish_best(unfinished, output, self._config, step, value)
            self._recorder.events.write("best", step=step, path=str(path), value=value)

    def _keep_model(self, step: int) -> None:
        """Keep the weights after an update in `keep_models`. Every process takes part in saving them."""
        if step not in self._keep_models:
            return
        if self._model_only and step == self._config.steps:  # then the last checkpoint is that model
            return
        unfinished = self._folders.output / UNFINISHED / f"model-{step}"
        self.save_model(str(unfinished), _internal_call=True)
        self.accelerator.wait_for_everyone()
        if self.accelerator.is_main_process:
            path = checkpoints.publish_model(unfinished, self._folders.output, self._config, step)
            self._recorder.events.write("checkpoint", step=step, path=str(path), model_only=True)

    def run(self, resume_from: Path | None) -> None:
        """Train to the end, or until asked to stop; `interrupted` is true after a stop in the middle of sampling."""
        if self._config.keep_best and resume_from is not None and self.accelerator.is_main_process:
            checkpoints.carry_best(resume_from, self._folders.output, self._config.evaluation)
        try:
            self.train(resume_from_checkpoint=None if resume_from is None else str(resume_from))
            if self._ends_with_model_only:  # nothing has been saved if all that was left was the last evaluation
                self._save_if_not_saved()
        except SamplingInterruptedError:
            self.interrupted = True
            self._save_if_not_saved()
        finally:
            self.end_server()

    def _save_if_not_saved(self) -> None:
        step = self.state.global_step
        if step and not checkpoint_folder(self._folders.output, step).exists():
            self._save_checkpoint(self.model, None)
            self.publish_checkpoint()

    def check_model(self) -> None:
        """Check the trainer's log-probabilities before anything is trained on them; record a warning.

        Raises: ConfigError, if they are wrong.
        """
        self._warn(self.check_logprobs())

    def _warn(self, warning: Mapping[str, Any] | None) -> None:
        if warning and self.accelerator.is_main_process:
            self._recorder.events.write("warning", step=self.state.global_step, **warning)

    # rollouts

    def _generate_and_score_completions(self, inputs: Any) -> dict[str, Any]:
        """Sample a rollout and return the tensors of this process's part. The inputs only count prompts."""
        started, rollout, position = time.perf_counter(), self._config.rollout, self._prompts.position
        restore_random_state = remembered_random_state()
        try:
            collected = rollouts.collect(rollout, self._prompts, self._processes, self._sampled_round, self.any_process)
        except SamplingInterruptedError:  # the checkpoint is of the state before this rollout
            restore_random_state()
            self._prompts.position = position
            raise
        tensors = self._scored(collected)
        self._generation_s += time.perf_counter() - started
        return tensors

    def _scored(self, collected: Collected) -> dict[str, Any]:
        rollout, device = self._config.rollout, self.accelerator.device
        pairs = [[(sample.completion, sample.judgement) for sample in group] for group in collected.groups]
        parts = reward_parts(self._config.task)
        self._rollout_metrics = NO_ENGINE | NO_CRITIC | rollout_stats(pairs, collected.sampled, self.accelerator, parts)
        pad = self._tokenizer.pad_token_id
        tensors = rollouts.as_tensors(collected.groups, rollout, self._config.advantage, pad, device)
        with self._reading_values():
            old_logprobs_BT, old_entropy_BT = self._forward(tensors._asdict())
        tensors = rollouts.with_entropy_rewards(
            tensors, collected.groups, rollout, self._config.advantage, old_entropy_BT
        )
        engine_BT, targets = rollouts.engine_logprobs(collected.groups, device), dict[str, Tensor]()
        if self._critic is not None:
            mask_BT = tensors.completion_mask
            rewards_B = rollouts.rewards(collected.groups, rollout).to(mask_BT.device)
            targets, stats = self._critic.targets(rewards_B, self._critic.values(mask_BT.size(1)), mask_BT)
            self._rollout_metrics |= stats
        counts: Any = self.accelerator.reduce(rollouts.counts(tensors, self._config.aggregation), reduction="sum")
        totals = rollouts.totals(counts, rollout.updates_per_rollout, self._processes, rollout.max_completion_tokens)
        return {
            **tensors._asdict(),
            "old_logprobs": old_logprobs_BT,
            "old_entropy": old_entropy_BT,
            **({} if engine_BT is None else self._correction(old_logprobs_BT, engine_BT, tensors.completion_mask)),
            **targets,
            **self._reference_scores(tensors._asdict()),
            **{f"totals/{name}": torch.as_tensor(value) for name, value in vars(totals).items()},
        }

    def _reading_values(self) -> AbstractContextManager[None]:
        return nullcontext() if self._critic is None else self._critic.reading()

    @torch.no_grad()
    def _reference_scores(self, rows: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Compute log-probabilities (B, T) under the initial model, in nats, if a term of the loss reads them."""
        if not self._config.terms.kl.coefficient:
            return {}
        if self._reference is not None:
            return {"reference_logprobs": self._logprobs(self._reference, rows)[0]}
        with self.model.disable_adapter():
            return {"reference_logprobs": self._forward(rows)[0]}

    def _correction(self, logprobs_BT: Tensor, engine_BT: Tensor, mask_BT: Tensor) -> dict[str, Tensor]:
        """Record the engine's distance from the trainer; return the weights that correct for it, if configured."""
        engine = self._config.rollout.engine
        cap = engine.correction_cap if isinstance(engine, VLLMEngine) else None
        stats = engine_stats(logprobs_BT, engine_BT, mask_BT, cap, self.accelerator)
        self._rollout_metrics |= stats
        if self._engine_unseen:
            self._engine_unseen = False
            self._warn(logprob_check.engine_warning(stats["engine/logprob_gap_mean"]))
        return {} if cap is None else {"sampling_weight": truncated_weights(logprobs_BT, engine_BT, cap)}

    def _sampled_round(self, indices: list[int]) -> list[Group]:
        return self._sampled_groups(indices, derived_seed(self._config.seed, "rollout", self._prompts.position))

    # updates

    def training_step(self, *args: Any, **kwargs: Any) -> Tensor:
        """Run forward and backward on a device batch."""
        self._step_started = self._step_started or time.perf_counter()
        return super().training_step(*args, **kwargs)

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> Tensor:
        with self._reading_values():
            logprobs_BT, entropy_BT = self._logprobs(model, inputs)
        values_BT = None if self._critic is None else self._critic.values(logprobs_BT.size(1))
        batch = self._token_batch(inputs, logprobs_BT, entropy_BT, values_BT)
        if self._step % self._batches_per_rollout < self.args.gradient_accumulation_steps:
            self._check_on_policy(batch)
        config, params = self._config, self._config.loss.at(self.state.global_step)
        result = objective(
            batch,
            params,
            config.aggregation,
            config.terms,
            entropy_coefficient=self._entropy_coefficient,
            positive_weight=self._positive_weight,
            critic=config.critic,
            totals=Totals(**{name: inputs[f"totals/{name}"] for name in Totals.__annotations__}),
        )
        (gradient_BT,) = torch.autograd.grad(result.output.loss_BT.sum(), logprobs_BT, retain_graph=True)
        self._stats.add(batch, result, gradient_BT, bounds=(params.low, params.high))
        self._window_loss = result.loss.detach() + self._window_loss
        return result.loss

    def _token_batch(
        self, inputs: Mapping[str, Tensor], logprobs_BT: Tensor, entropy_BT: Tensor, values_BT: Tensor | None = None
    ) -> TokenBatch:
        """Join a rollout's tensors with those of the present policy and critic."""
        seed, shaping = loss_seed(self._config.seed, self._step, self._rank), self._config.advantage.entropy
        advantages_BT = inputs["advantages"]
        if advantages_BT.dim() == 1:
            advantages_BT = inputs["advantages"].unsqueeze(1).expand_as(logprobs_BT)
        if shaping is not None:
            advantages_BT = entropy_advantages(advantages_BT, entropy_BT, shaping)
        return TokenBatch(
            logprobs_BT,
            inputs["old_logprobs"],
            advantages_BT,
            inputs["completion_mask"],
            entropy_BT=entropy_BT,
            old_entropy_BT=inputs["old_entropy"],
            correct_B=inputs["correct"],
            active_B=inputs["active"],
            reference_logprobs_BT=inputs.get("reference_logprobs"),
            values_BT=values_BT,
            old_values_BT=inputs.get("old_values"),
            returns_BT=inputs.get("returns"),
            sampling_weight_BT=inputs.get("sampling_weight"),
            generator=torch.Generator(self.accelerator.device).manual_seed(seed),
        )

    def _check_on_policy(self, batch: TokenBatch) -> None:
        """Raise in every process if the ratio of an unchanged policy differs from 1 in any of them.

        Raises: OffPolicyError.
        """
        gap = (batch.logprobs_BT.detach() - batch.old_logprobs_BT).abs().sum() / batch.mask_BT.sum().clamp(min=1)
        if self._processes > 1:  # those that went on would wait for one that had raised
            every: Any = self.accelerator.gather(gap.unsqueeze(0))
            gap = every.amax()
        if gap > _ON_POLICY_TOLERANCE_NATS:  # one that is not finite ends the run as DIVERGED
            raise OffPolicyError(
                f"log-probabilities of a fresh rollout differ by {gap.item():.3g} nats a token from those it was "
                "sampled with; is dropout active, or were weights changed during the rollout?"
            )

    def _clip_grad_norm(self, model: Any) -> Any:
        norm: Any = super()._clip_grad_norm(model)
        if isinstance(norm, DTensor):
            norm = norm.full_tensor()
        loss: Any = self._window_loss if self._processes == 1 else self.accelerator.reduce(self._window_loss)
        norms = {"gradient's norm": torch.as_tensor(norm)}
        if self._critic is not None:
            norms["norm of the value head's gradient"] = self._critic.clip_grad_norm()
        for what, value in (*norms.items(), ("loss", loss)):
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
        metrics |= {**self._rollout_metrics, **self._schedules(step), **self._times(metrics), **self._frozen.take()}
        if bonus.target is not None and (entropy := metrics["entropy"]) is not None:
            self._entropy_coefficient = next_coefficient(self._entropy_coefficient, entropy, bonus)
        self._positive_weight = next_weight(
            self._positive_weight, step, metrics["entropy"], self._config.advantage.positive_weight
        )
        if self.accelerator.is_main_process:
            self._recorder.step(step, metrics)
            self._warn(self._inert.after_step(step, metrics))
        self._keep_model(step)

    def _schedules(self, step: int) -> dict[str, float | None]:
        params = self._config.loss.at(step - 1)
        return {
            "schedule/beta1": getattr(params, "beta1", None),
            "schedule/beta2": getattr(params, "beta2", None),
            "schedule/positive_weight": self._positive_weight,
            "entropy_bonus/coefficient": self._entropy_coefficient,
        }

    def _times(self, metrics: Mapping[str, float | None]) -> dict[str, float | None]:
        step_s, generation_s = time.perf_counter() - self._step_started, self._generation_s
        update_s = step_s - generation_s - self._frozen_s
        self._restart_clocks()
        return {
            "time/generation_s": generation_s,
            "time/update_s": update_s,
            "time/step_s": step_s,
            "tokens/per_second": (metrics["tokens/step"] or 0.0) / step_s,
            "memory/peak_mib": max(gather_object([_memory_peak_since_start_mib()])),
        }

    def _restart_clocks(self) -> None:
        self._step_started = self._generation_s = self._frozen_s = 0.0

    # evaluation and frozen completions

    def evaluate(self, *_: Any, **__: Any) -> dict[str, float]:
        """Sample the validation problems and record the result."""
        step = self.state.global_step
        evaluation = self.evaluation_after(step)
        self.evaluated_step = step
        if self.accelerator.is_main_process:
            self._recorder.evaluation(step, evaluation)
        if self._config.keep_best and step:
            self._keep_best(step, evaluation.metrics["eval/avg_at_k"])
        metrics = {name: value for name, value in evaluation.metrics.items() if value is not None}
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
        return metrics

    def _tell_waiting(self) -> None:
        self._waiting.announce(0)

    def freeze_completions(self) -> None:
        """Freeze completions of the policy that training starts from, the same for every run that starts from it."""
        if number := self._config.evaluation.probe_completions:
            problems = self._task.training
            prompt_ids = self._token_ids([problems[index % len(problems)] for index in range(number)])
            with own_random_state(0):
                completion_ids = [tokens.ids for tokens in self._completed(prompt_ids, self._evaluation_batch, 0)]
            self._frozen.freeze(prompt_ids, completion_ids, self._tokenizer.pad_token_id, self._forward)

    def measure_frozen_completions(self) -> None:
        """Measure the policy on the frozen completions, for the record of this update."""
        started = time.perf_counter()
        self._frozen.measure(self._forward)
        self._frozen_s += time.perf_counter() - started


def _memory_peak_since_start_mib() -> float:
    """Measure this process's largest memory since it started; the cost probe measures that of each phase."""
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated() / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
