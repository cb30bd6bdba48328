"""What is not finite ends a run before it reaches the weights."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.integration.trainers.trainer_runs import small_config
from trainers.errors import DivergedError
from trainers.policy.warm_start import warm_started
from trainers.process.events import EventWriter
from trainers.record.recorder import Recorder
from trainers.tasks import make_task
from trainers.training.policy_trainer import PolicyTrainer
from trainers.training.sampling_trainer import Folders


class OverflowingTrainer(PolicyTrainer):
    """From the third update on its loss is not a number, and neither is its gradient."""

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> Tensor:
        return super()._compute_loss(model, inputs) * (torch.nan if self.state.global_step >= 2 else 1)


class InfiniteLossTrainer(PolicyTrainer):
    """From the third update on its loss is infinite, while its gradient stays finite."""

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> Tensor:
        loss = super()._compute_loss(model, inputs)
        if self.state.global_step >= 2:
            self._window_loss = self._window_loss + torch.inf
        return loss


@pytest.fixture
def made(cache: Path, tmp_path: Path) -> Iterator[Callable[[type[PolicyTrainer]], PolicyTrainer]]:
    """Makes a trainer of a class."""
    with EventWriter(tmp_path / "events.jsonl") as events:

        def make(kind: type[PolicyTrainer]) -> PolicyTrainer:
            config = small_config()
            task = make_task(config.task, cache)
            assert config.model.name == "tiny_qwen2"
            model = warm_started(config.model, task, cache, events, lambda: False)
            folders = Folders(model, tmp_path, cache)
            return kind(config, task, folders, Recorder(events, config.steps, 0, {}), lambda: False, {})

        yield make


@pytest.mark.parametrize(
    ("kind", "told"),
    [(OverflowingTrainer, "gradient's norm is nan"), (InfiniteLossTrainer, "loss is inf")],
)
def test_what_is_not_finite_ends_the_run_before_it_reaches_the_weights(
    kind: type[PolicyTrainer], told: str, made: Callable[[type[PolicyTrainer]], PolicyTrainer]
) -> None:
    trainer = made(kind)
    with pytest.raises(DivergedError, match=f"{told} after step 2") as caught:
        trainer.train()
    assert caught.value.last_good_step == 2
    assert all(torch.isfinite(parameter).all() for parameter in trainer.model.parameters())
