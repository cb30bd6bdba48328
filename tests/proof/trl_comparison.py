"""TRL's own loss beside ours: the same trainer, rollouts and device batches, in float64."""

from pathlib import Path
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor
from trl.trainer.grpo_trainer import GRPOTrainer

from tests.proof.float64 import in_float64
from tests.proof.runs import RecordingTrainer, tiny_config, trainer_of
from trainers.config import TrainingConfig


class Parity(NamedTuple):
    """A loss of ours, and TRL's settings for the same."""

    ours: dict[str, Any]
    loss_type: str
    level: str
    epsilon_low: float
    epsilon_high: float
    delta: float | None


PARITIES: Final = {
    "dapo": Parity(
        {"name": "dapo", "epsilon_low": 0.05, "epsilon_high": 0.08, "dual_clip": 1.2}, "dapo", "token", 0.05, 0.08, 1.2
    ),
    # TRL's epsilon_high is the cap itself, and there is no lower bound.
    "cispo": Parity({"name": "cispo", "epsilon_low": 1.0, "epsilon_high": 0.08}, "cispo", "token", 0.05, 1.08, None),
    "gspo": Parity(
        {"name": "gspo", "epsilon_low": 0.003, "epsilon_high": 0.004}, "grpo", "sequence", 0.003, 0.004, None
    ),
}


class ComparingTrainer(RecordingTrainer):
    """Trains on our loss and computes TRL's beside it."""

    def begin_comparing(self, parity: Parity) -> None:
        self.begin_in_float64()
        self.loss_type, self.importance_sampling_level = parity.loss_type, parity.level
        self.epsilon_low, self.epsilon_high, self.args.delta = parity.epsilon_low, parity.epsilon_high, parity.delta
        self.window: list[Tensor] = []
        self.loss_gaps: list[float] = []
        self.gradient_gaps: list[float] = []
        self.largest: list[float] = []
        """Of each update's gradient."""

    def _generate_and_score_completions(self, inputs: Any) -> dict[str, Any]:
        rollout = super()._generate_and_score_completions(inputs)
        tokens = self.accelerator.gather(rollout["completion_mask"].sum()).sum().double()  # TRL divides in its type
        return {**rollout, "old_per_token_logps": rollout["old_logprobs"], "num_items_in_batch": tokens}

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> Tensor:
        ours = super()._compute_loss(model, inputs)
        stock = GRPOTrainer._compute_loss(self, self.model, inputs)
        self.window.append(_flat(torch.autograd.grad(stock, list(self.model.parameters()))))
        self.loss_gaps.append(abs(ours.item() - stock.item()))
        return ours

    def _clip_grad_norm(self, model: Any) -> Any:
        """Compare what the optimizer is about to get: accumulated, and averaged over the processes."""
        ours = _flat([parameter.grad for parameter in self.model.parameters()])
        stock: Tensor = self.accelerator.reduce(torch.stack(self.window).sum(0), reduction="mean")
        self.window.clear()
        self.gradient_gaps.append((ours - stock).abs().max().item())
        self.largest.append(stock.abs().max().item())
        return super()._clip_grad_norm(model)


def compared(name: str, folder: Path, cache: Path, **params: Any) -> tuple[ComparingTrainer, TrainingConfig]:
    """A short run with the comparisons it made."""
    parity = PARITIES[name]
    config = tiny_config(loss=parity.ours, **params)
    with in_float64():
        trainer, _ = trainer_of(ComparingTrainer, config, folder, cache)
        trainer.begin_comparing(parity)
        trainer.train()
    return trainer, config


def _flat(parts: Any) -> Tensor:
    return torch.cat([part.flatten() for part in parts])
