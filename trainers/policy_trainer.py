"""TRL's GRPOTrainer with our losses, statistics, evaluation and record. The only file that knows TRL.

What is TRL's: sampling, group-normalised advantages, old log-probabilities, the order of minibatches, optimizer steps.
Overridden are `_compute_loss` and the hooks around it. Shapes: B sequences, P prompt tokens, T completion tokens.
"""

import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import torch
import trl.trainer.utils
from datasets import Dataset
from packaging.version import Version
from torch import Tensor
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    GenerationConfig,
    PrinterCallback,
)
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer

from trainers.checkpoints import UNFINISHED, publish, write_state
from trainers.config import TrainingConfig
from trainers.errors import DivergedError, OffPolicyError
from trainers.evaluate import Completion, evaluate, own_random_state
from trainers.losses import TokenBatch, policy_loss, token_mean
from trainers.recorder import Recorder
from trainers.schedule import Schedule
from trainers.step_stats import StepStats
from trainers.tasks import Task
from trainers.tasks.base import prompts_of_run

_ON_POLICY_TOLERANCE_NATS: Final = 0.02
_ROLLOUT_METRICS: Final = {  # ours: TRL's
    "reward/mean": "reward",
    "reward/std": "reward_std",
    "group/zero_spread_share": "frac_reward_zero_std",
    "completion/length_mean": "completions/mean_length",
    "completion/truncated_share": "completions/clipped_ratio",
}


class PolicyTrainer(GRPOTrainer):
    """One run. Call `train` once.

    Args:
        model_path: folder of model and tokenizer to start from.
        output: folder that gets the checkpoints.
        stopping: asked after every rollout's last update; true ends the run after a checkpoint.
    """

    def __init__(
        self,
        config: TrainingConfig,
        task: Task,
        model_path: Path,
        output: Path,
        recorder: Recorder,
        stopping: Callable[[], bool],
    ) -> None:
        assert Version("1.16") <= Version(version("trl")) < Version("1.17"), "overrides private methods of TRL 1.16"
        self._config, self._task, self._recorder, self._output = config, task, recorder, output
        self._device_batches = config.accumulation_steps * config.rollout.updates_per_rollout  # of a rollout
        self._stats, self._step_started, self._generation_s = StepStats(), 0.0, 0.0
        self._rollout_metrics: dict[str, float] = {}
        self._policy = model = AutoModelForCausalLM.from_pretrained(model_path, dtype=torch.float32)
        self._characters: Any = AutoTokenizer.from_pretrained(model_path)
        _refuse_dropout(model)
        if not torch.cuda.is_available():  # its buffer is as wide as this, however small the vocabulary
            trl.trainer.utils._CHUNKED_LOGPROB_CHUNK_SIZE = model.config.vocab_size
        super().__init__(
            model=model,
            processing_class=self._characters,
            reward_funcs=self._rewards,
            args=_arguments(config, output),
            train_dataset=_prompts(config, task),
            callbacks=[Schedule(config, self.evaluate, self._publish_checkpoint, stopping)],
        )
        self.remove_callback(PrinterCallback)

    # rollouts

    def _rewards(self, completion_ids: list[list[int]], problem: list[int], **_: Any) -> list[float | None]:
        return [
            self._task.reward(self._task.training[index], completion.text, truncated=completion.truncated)
            for index, completion in zip(problem, map(self._completion, completion_ids), strict=True)
        ]

    def _completion(self, ids: list[int]) -> Completion:
        ended = ids[-1] in self.eos_token_ids
        return Completion(self._characters.decode(ids[:-1] if ended else ids), len(ids), truncated=not ended)

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        started = time.perf_counter()
        rollout = super()._generate_and_score_completions(inputs)
        self._generation_s += time.perf_counter() - started
        self._rollout_metrics = {ours: self._metrics["train"][trls][-1] for ours, trls in _ROLLOUT_METRICS.items()}
        return rollout

    def _generate_single_turn(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return super()._generate_single_turn(*args, **kwargs)
        except RuntimeError as error:
            if "probability tensor contains" not in str(error):
                raise
            raise DivergedError(self.state.global_step, "the policy's probabilities are not finite") from error

    # updates

    def training_step(self, *args: Any, **kwargs: Any) -> Tensor:
        """Run forward and backward on a device batch."""
        self._step_started = self._step_started or time.perf_counter()
        return super().training_step(*args, **kwargs)

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> Tensor:
        mask_BT = inputs["completion_mask"]
        logprobs_BT, entropy_BT, _ = self._get_per_token_logps_and_entropies(
            model,
            torch.cat([inputs["prompt_ids"], inputs["completion_ids"]], dim=1),
            torch.cat([inputs["prompt_mask"], mask_BT], dim=1),
            mask_BT.size(1),
            compute_entropy=True,
        )
        advantages_BT = inputs["advantages"].unsqueeze(1).expand_as(logprobs_BT)
        batch = TokenBatch(logprobs_BT, inputs["old_per_token_logps"], advantages_BT, mask_BT)
        output = policy_loss(batch, self._config.loss)
        if self._step % self._device_batches < self._config.accumulation_steps:
            _check_on_policy(batch)
        self._stats.add(batch, output, entropy_BT.detach(), self._config.loss)
        return token_mean(output.loss_BT, batch.mask_BT, total=self._tokens_per_update(inputs))

    def _tokens_per_update(self, inputs: dict[str, Any]) -> Tensor:
        """Completion tokens of an update, averaged over the rollout and processes: what TRL's "dapo" divides by."""
        tokens = inputs["num_items_in_batch"].clamp(min=1) / self.accelerator.num_processes
        return tokens * self.current_gradient_accumulation_steps / self._device_batches

    def _clip_grad_norm(self, model: Any) -> Any:
        norm: Any = super()._clip_grad_norm(model)
        if not torch.isfinite(norm):
            raise DivergedError(self.state.global_step, f"the gradient's norm is {norm.item()}")
        return norm

    # record

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Record an optimizer update."""
        self._metrics["train"].clear()
        if "grad_norm" not in logs:  # the closing message of `train`
            return
        step_s = time.perf_counter() - self._step_started
        times = {
            "time/generation_s": self._generation_s,
            "time/update_s": step_s - self._generation_s,
            "time/step_s": step_s,
        }
        optimizer = {name: logs[name] for name in ("loss", "grad_norm", "learning_rate")}
        metrics = {**optimizer, **self._stats.reduced(self.accelerator), **self._rollout_metrics, **times}
        self._step_started = self._generation_s = 0.0
        self._recorder.step(self.state.global_step, metrics)

    def evaluate(self, *_: Any, **__: Any) -> dict[str, float]:
        """Sample the validation problems and record the result; leaves no trace in training."""
        step, sampling = self.state.global_step, self._config.evaluation
        with own_random_state(hash((self._config.seed, step)) % 2**32):
            evaluation = evaluate(
                lambda prompts: self._sampled(prompts, sampling.temperature, sampling.top_p), self._task, sampling
            )
        self._recorder.evaluation(step, evaluation)
        metrics = {name: value for name, value in evaluation.metrics.items() if value is not None}
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
        return metrics

    def _sampled(self, prompts: Sequence[str], temperature: float, top_p: float) -> list[Completion]:
        training = self.generation_config, self.generation_kwargs, self._policy.training
        self.generation_kwargs = {**self.generation_kwargs, "temperature": temperature, "top_p": top_p}
        self.generation_config = GenerationConfig(**self.generation_kwargs, disable_compile=True)
        self._policy.eval()
        try:
            completions: list[Completion] = []
            size = self._config.rollout.prompts_per_rollout * self._config.rollout.completions_per_prompt
            for start in range(0, len(prompts), size):
                ids = self._characters(text=list(prompts[start : start + size]))
                sampled, _ = self._generate_single_turn(ids["input_ids"], None, {}, 1)
                completions += map(self._completion, sampled)
            return completions
        finally:
            self.generation_config, self.generation_kwargs = training[:2]
            self._policy.train(training[2])

    def create_model_card(self, *_: Any, **__: Any) -> None:
        """Write no model card into checkpoints."""

    def _publish_checkpoint(self) -> None:
        step = self.state.global_step
        unfinished = self._output / UNFINISHED / f"checkpoint-{step}"
        write_state(unfinished, self._config, {"step": step, **self._recorder.state})
        self._recorder.before_checkpoint()
        self._recorder.checkpoint(step, publish(unfinished, self._output, step))


def _arguments(config: TrainingConfig, output: Path) -> GRPOConfig:
    rollout, optimizer, cuda = config.rollout, config.optimizer, torch.cuda.is_available()
    return GRPOConfig(
        output_dir=str(output / UNFINISHED),
        seed=config.seed,
        max_steps=config.steps,
        # rollouts; a generation batch is a whole rollout, so ratios leave 1 after its first update
        per_device_train_batch_size=config.device_batch,
        gradient_accumulation_steps=config.accumulation_steps,
        steps_per_generation=config.accumulation_steps * rollout.updates_per_rollout,
        num_generations=rollout.completions_per_prompt,
        max_completion_length=rollout.max_completion_tokens,
        temperature=rollout.temperature,
        top_p=rollout.top_p,
        top_k=0,
        shuffle_dataset=False,
        # loss: our own, with the normaliser of "dapo"; no KL term
        loss_type="dapo",
        beta=0.0,
        # optimizer
        learning_rate=optimizer.learning_rate,
        lr_scheduler_type="constant_with_warmup",
        warmup_steps=optimizer.warmup_steps,
        adam_beta1=optimizer.adam_beta1,
        adam_beta2=optimizer.adam_beta2,
        adam_epsilon=optimizer.adam_epsilon,
        weight_decay=optimizer.weight_decay,
        max_grad_norm=optimizer.max_grad_norm,
        # machine
        use_cpu=not cuda,
        bf16=False,
        activation_checkpointing=False,
        dataloader_pin_memory=cuda,
        # record
        logging_steps=1,
        logging_nan_inf_filter=False,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
    )


def _prompts(config: TrainingConfig, task: Task) -> Dataset:
    """All prompts of the run in order, so that a resumed run reads on where it was."""
    rollouts = config.steps // config.rollout.updates_per_rollout
    order = prompts_of_run(len(task.training), rollouts * config.rollout.prompts_per_rollout, config.seed)
    return Dataset.from_dict({"prompt": [task.training[index].prompt for index in order], "problem": order})


def _refuse_dropout(model: Any) -> None:
    active = {k: v for k, v in model.config.to_dict().items() if "dropout" in k and isinstance(v, float) and v > 0}
    assert not active, f"dropout makes the ratio of an unchanged policy differ from 1: {active}"


def _check_on_policy(batch: TokenBatch) -> None:
    gap = (batch.logprobs_BT.detach() - batch.old_logprobs_BT).abs().sum() / batch.mask_BT.sum().clamp(min=1)
    if gap > _ON_POLICY_TOLERANCE_NATS:
        raise OffPolicyError(
            f"log-probabilities of a fresh rollout differ by {gap.item():.3g} nats a token from those it was sampled "
            "with; is dropout active, or were weights changed during the rollout?"
        )
