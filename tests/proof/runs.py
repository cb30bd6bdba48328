"""Runs of the real trainer in float64 that keep what they were given and what they made of it."""

from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from unittest.mock import patch

from torch import Tensor
from transformers import AutoModelForCausalLM

from tests.proof.float64 import in_float64
from tests.proof.plain_loop import DeviceBatch, Optimization
from trainers.config import TinyPolicy, TrainingConfig, with_params
from trainers.policy.warm_start import warm_started
from trainers.process.events import NoEvents
from trainers.record.recorder import Recorder
from trainers.tasks import Task, make_task
from trainers.training import policy_trainer
from trainers.training.policy_trainer import PolicyTrainer
from trainers.training.sampling_trainer import Folders

T = TypeVar("T", bound=PolicyTrainer)
Weights = dict[str, Tensor]

TINY: dict[str, Any] = {
    "task": {"smallest": 2, "largest": 20},
    "model": {"hidden_size": 16, "num_layers": 1, "num_heads": 2, "warm_start_steps": 500},
    "rollout": {
        "prompts_per_rollout": 10,
        "completions_per_prompt": 8,
        "prompts_per_minibatch": 2,
        "max_completion_tokens": 6,
        "temperature": 0.9,
        "overlong": {"cache_tokens": 2, "factor": 0.5},
    },
    "optimizer": {
        "learning_rate": 4e-3,
        "warmup_steps": 3,
        "adam_beta1": 0.8,
        "adam_beta2": 0.95,
        "adam_epsilon": 1e-6,
        "weight_decay": 0.1,
        "max_grad_norm": 0.5,
    },
    "evaluation": {"every_steps": 1000, "samples_per_problem": 1, "pass_k": 1, "probe_completions": 0},
    "device_batch": 8,
    "steps": 50,
}
"""10 rollouts of 5 updates of 2 device batches. No setting has the value at which it would do nothing."""


def tiny_config(**params: Any) -> TrainingConfig:
    """The tiny run with dotted names changed; a dot is written as two underscores."""
    return TrainingConfig.model_validate(
        with_params(TINY, {name.replace("__", "."): value for name, value in params.items()})
    )


def optimization(config: TrainingConfig) -> Optimization:
    settings = config.optimizer
    return Optimization(
        learning_rate=settings.learning_rate,
        warmup_steps=settings.warmup_steps,
        betas=(settings.adam_beta1, settings.adam_beta2),
        epsilon=settings.adam_epsilon,
        weight_decay=settings.weight_decay,
        largest_norm=settings.max_grad_norm,
        temperature=config.rollout.temperature,
    )


class Recording(NamedTuple):
    initial: Weights
    """Before training."""
    final: Weights
    """And after it."""
    sampled: list[dict[str, Tensor]]
    """Each rollout as it was scored, before it was shuffled."""
    old: list[Weights]
    """Weights of the policy that sampled each of them."""
    rollouts: list[list[list[DeviceBatch]]]
    """Each rollout's updates in device batches, as they were differentiated."""
    losses: list[float]
    """Loss of each update: the sum of what its device batches' backward passes started from."""
    logged: list[float]
    """The same as the record has it."""
    task: Task
    characters: Any
    """The tokenizer."""
    architecture: Any
    heads: list[Weights]
    """A critic's value head: beside each policy of `old`, and in the end; empty without one."""

    def model(self, weights: Weights) -> Any:
        """A model of its own, without anything that TRL or the trainer hung on theirs."""
        model = AutoModelForCausalLM.from_config(self.architecture).double()
        model.load_state_dict(weights)
        return model


class RecordingTrainer(PolicyTrainer):
    """Keeps what it was given."""

    def begin_in_float64(self) -> None:
        self.model.double()
        if self._reference is not None:
            self._reference.double()
        if self._critic is not None:
            self._critic.head.double()
        self.begin()

    def begin(self) -> None:
        self.initial = weights_of(self.model)
        self.sampled: list[dict[str, Tensor]] = []
        self.old: list[Weights] = []
        self.heads: list[Weights] = []
        self.batches: dict[int, list[DeviceBatch]] = {}
        self.losses: dict[int, float] = {}

    @property
    def head(self) -> Weights:
        """Weights of the critic's head; empty without a critic."""
        return {} if self._critic is None else weights_of(self._critic.head)

    def _generate_and_score_completions(self, inputs: Any) -> dict[str, Any]:
        self.old.append(weights_of(self.model))
        self.heads.append(self.head)
        rollout = super()._generate_and_score_completions(inputs)
        rollout["advantages"] = rollout["advantages"].double()
        self.sampled.append({name: tensor.clone() for name, tensor in rollout.items()})
        return rollout

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> Tensor:
        chosen: list[Tensor | None] = []

        def spied(*args: Any, **kwargs: Any) -> Any:
            result = objective(*args, **kwargs)
            chosen.append(result.output.selected_BT)
            return result

        objective = policy_trainer.objective
        with patch.object(policy_trainer, "objective", spied):
            loss = super()._compute_loss(model, inputs)
        update, drops = self.state.global_step, getattr(self._config.loss, "erc", None)
        selected_BT = None if drops else chosen[0]  # the plain rule finds by itself what erc drops
        self.batches.setdefault(update, []).append(device_batch(inputs, selected_BT))
        self.losses[update] = self.losses.get(update, 0.0) + loss.item()
        return loss


def weights_of(model: Any) -> Weights:
    return {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}


def device_batch(inputs: dict[str, Any], selected_BT: Tensor | None) -> DeviceBatch:
    advantages = inputs["advantages"]
    if advantages.dim() == 1:  # a completion's tokens have one advantage
        advantages = advantages.unsqueeze(1).expand_as(inputs["old_logprobs"])
    return DeviceBatch(
        inputs["prompt_ids"],
        inputs["prompt_mask"],
        inputs["completion_ids"],
        inputs["completion_mask"],
        inputs["old_logprobs"],
        inputs["old_entropy"],
        advantages,
        inputs["correct"],
        inputs["active"],
        selected_BT,
        old_values_BT=inputs.get("old_values"),
        returns_BT=inputs.get("returns"),
    )


class Memory(NoEvents):
    """Keeps events in memory only."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []

    def write(self, kind: str, **fields: Any) -> None:
        self.events.append({"type": kind, **fields})


def policy_folder(config: TrainingConfig, cache: Path) -> Path:
    """The tiny policy's; made on first use."""
    assert isinstance(config.model, TinyPolicy)
    return warm_started(config.model, make_task(config.task, cache), cache, NoEvents(), lambda: False)


def trainer_of(kind: type[T], config: TrainingConfig, folder: Path, cache: Path) -> tuple[T, Memory]:
    """A trainer of a class on the tiny policy, and its events."""
    events, task, model = Memory(), make_task(config.task, cache), policy_folder(config, cache)
    recorder = Recorder(events, config.steps, 0, {})
    return kind(config, task, Folders(model, folder, cache), recorder, lambda: False, {}), events


def recorded(config: TrainingConfig, folder: Path, cache: Path) -> Recording:
    """Train in this process, in float64."""
    with in_float64():
        trainer, events = trainer_of(RecordingTrainer, config, folder, cache)
        trainer.begin_in_float64()
        trainer.train()
    updates = [trainer.batches[step] for step in range(len(trainer.batches))]
    each = config.rollout.updates_per_rollout
    return Recording(
        initial=trainer.initial,
        final=weights_of(trainer.model),
        sampled=trainer.sampled,
        old=trainer.old,
        rollouts=[updates[start : start + each] for start in range(0, len(updates), each)],
        losses=[trainer.losses[step] for step in range(len(updates))],
        logged=[event["metrics"]["loss"] for event in events.events if event["type"] == "step"],
        task=trainer._task,
        characters=trainer._tokenizer,
        architecture=trainer.model.config,
        heads=[*trainer.heads, trainer.head],
    )


def largest_gap(ours: Weights, theirs: Weights) -> float:
    """Largest absolute difference, as a share of the largest absolute value."""
    assert ours.keys() == theirs.keys()
    gaps = [(tensor - theirs[name]).abs().max().item() for name, tensor in ours.items()]
    return max(gaps) / max(tensor.abs().max().item() for tensor in theirs.values())
