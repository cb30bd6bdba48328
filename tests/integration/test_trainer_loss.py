"""What is differentiated: our `grpo` and `dapo` against TRL's own loss on the same inputs; what is not finite."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pytest
import torch
from torch import Tensor
from trl.trainer.grpo_trainer import GRPOTrainer

from tests.integration.trainer_runs import small_config
from trainers.config import TrainingConfig
from trainers.errors import DivergedError
from trainers.events import EventWriter
from trainers.policy_trainer import PolicyTrainer
from trainers.recorder import Recorder
from trainers.tasks import make_task
from trainers.warm_start import warm_started

# TRL 1.16 asks transformers 5.23 for a property that it renamed.
pytestmark = pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated:FutureWarning")


T = TypeVar("T", bound=PolicyTrainer)


class Comparison(NamedTuple):
    ours: Tensor
    stock: Tensor
    our_gradient: Tensor
    stock_gradient: Tensor


class ComparingTrainer(PolicyTrainer):
    """Trains on our loss and computes TRL's on the same inputs beside it."""

    comparisons: list[Comparison]

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> Tensor:
        ours, stock = super()._compute_loss(model, inputs), GRPOTrainer._compute_loss(self, model, inputs)
        parameters = list(model.parameters())
        gradients = [
            torch.cat([part.flatten() for part in torch.autograd.grad(loss, parameters, retain_graph=True)])
            for loss in (ours, stock)
        ]
        self.comparisons.append(Comparison(ours.detach(), stock.detach(), gradients[0], gradients[1]))
        return ours


class OverflowingTrainer(PolicyTrainer):
    """Its loss is not a number from the third update on."""

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> Tensor:
        return super()._compute_loss(model, inputs) * (torch.nan if self.state.global_step >= 2 else 1)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


Maker = Callable[[type[T], TrainingConfig], T]


@pytest.fixture
def made(cache: Path, tmp_path: Path) -> Iterator[Maker[Any]]:
    """Makes a trainer of a class."""
    with EventWriter(tmp_path / "events.jsonl") as events:

        def make(kind: type[T], config: TrainingConfig) -> T:
            model = warm_started(config.model, config.task, cache, events, lambda: False)
            recorder = Recorder(events, config.steps, 0, {})
            return kind(config, make_task(config.task), model, tmp_path, recorder, lambda: False)

        yield make


@pytest.mark.parametrize(("name", "bounds"), [("grpo", (0.03, 0.03)), ("dapo", (0.03, 0.06))])
@pytest.mark.parametrize("accumulated", [1, 2])
def test_our_clipped_loss_is_trls(
    name: str, bounds: tuple[float, float], accumulated: int, made: Maker[ComparingTrainer]
) -> None:
    loss = {"name": name, "epsilon_low": bounds[0], "epsilon_high": bounds[1], "dual_clip": 3.0}
    trainer = made(ComparingTrainer, small_config(loss=loss, device_batch=16 // accumulated))
    trainer.epsilon_low, trainer.epsilon_high = bounds
    trainer.args.delta = 3.0
    trainer.comparisons = []
    trainer.train()
    assert len(trainer.comparisons) == 16 * accumulated
    for ours, stock, our_gradient, stock_gradient in trainer.comparisons:
        torch.testing.assert_close(ours, stock)
        torch.testing.assert_close(our_gradient, stock_gradient)
    assert sum(comparison.our_gradient.norm() > 0 for comparison in trainer.comparisons) >= 8 * accumulated


def test_a_gradient_that_is_not_finite_ends_the_run_before_it_reaches_the_weights(
    made: Maker[OverflowingTrainer],
) -> None:
    trainer = made(OverflowingTrainer, small_config())
    with pytest.raises(DivergedError, match="norm is nan after step 2") as caught:
        trainer.train()
    assert caught.value.last_good_step == 2
    assert all(torch.isfinite(parameter).all() for parameter in trainer._policy.parameters())
