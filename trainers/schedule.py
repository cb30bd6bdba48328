"""When a run evaluates, saves and stops: after optimizer updates, and only where a rollout ends if state is saved."""

from collections.abc import Callable
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState

from trainers.config import TrainingConfig


class Schedule(TrainerCallback):
    """Tells the trainer what to do next.

    Args:
        evaluate: called before the first update of a run that is not resumed.
        publish: called once the trainer has written a checkpoint's files.
        stopping: asked where a rollout ends; true ends the run after a checkpoint.
    """

    def __init__(
        self,
        config: TrainingConfig,
        evaluate: Callable[[], object],
        publish: Callable[[], None],
        stopping: Callable[[], bool],
    ) -> None:
        self._config, self._evaluate, self._publish, self._stopping = config, evaluate, publish, stopping

    def on_train_begin(self, args: Any, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Evaluate the policy that training starts from."""
        if state.global_step == 0:
            self._evaluate()

    def on_step_end(self, args: Any, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Set the flags that the trainer obeys after this update."""
        config, step = self._config, state.global_step
        rollouts, updates_into_next = divmod(step, config.rollout.updates_per_rollout)
        last = step == config.steps
        control.should_evaluate = last or step % config.evaluation.every_steps == 0
        if not updates_into_next:
            stop = last or self._stopping()
            control.should_save = stop or rollouts % config.checkpoint_every_rollouts == 0
            control.should_training_stop = stop

    def on_save(self, args: Any, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Make the files just written a checkpoint."""
        self._publish()
