"""Decides after each optimizer update whether a run evaluates, measures frozen completions, saves or stops."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from transformers import TrainerCallback, TrainerControl, TrainerState

from trainers.config import TrainingConfig

if TYPE_CHECKING:
    from trainers.training.policy_trainer import PolicyTrainer


class Schedule(TrainerCallback):
    """Tells the trainer what to do next.

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
