"""Which updates are followed by an evaluation, a checkpoint or the end."""

from typing import Any

import pytest
from transformers import TrainerControl, TrainerState

from trainers.config import TrainingConfig
from trainers.training.policy_trainer import Schedule

CONFIG = TrainingConfig.model_validate(
    {
        "rollout": {"prompts_per_rollout": 8, "prompts_per_minibatch": 4},
        "evaluation": {"every_steps": 3},
        "checkpoint_every_rollouts": 2,
        "steps": 12,
    }
)


class Told:
    """A trainer that writes down which methods are called; `other_stops` is what another process says."""

    def __init__(self, evaluated_step: int | None = None, other_stops: bool = False) -> None:
        self.evaluated_step, self._other_stops = evaluated_step, other_stops
        self.told = list[str]()

    def __getattr__(self, name: str) -> Any:
        return lambda: self.told.append(name)

    def any_process(self, condition: bool, /) -> bool:
        return condition or self._other_stops


def after(step: int, trainer: Any, stopping: bool = False) -> TrainerControl:
    control = TrainerControl()
    Schedule(CONFIG, trainer, lambda: stopping).on_step_end(None, TrainerState(global_step=step), control)
    return control


def test_evaluations_and_checkpoints_come_as_often_as_asked_and_at_the_end() -> None:
    controls = {step: after(step, Told()) for step in range(1, 13)}
    assert [step for step, control in controls.items() if control.should_evaluate] == [3, 6, 9, 12]
    assert [step for step, control in controls.items() if control.should_save] == [4, 8, 12]
    assert [step for step, control in controls.items() if control.should_training_stop] == [12]


def test_the_probe_is_measured_after_whole_rollouts() -> None:
    trainer: Any = Told()
    for step in range(1, 7):
        after(step, trainer)
    assert trainer.told == ["measure_frozen_completions"] * 3


@pytest.mark.parametrize("other_stops", [False, True])
def test_a_stop_saves_at_once_and_leaves_the_evaluation_to_the_next_start(other_stops: bool) -> None:
    control = after(3, Told(other_stops=other_stops), stopping=not other_stops)
    assert (control.should_evaluate, control.should_save, control.should_training_stop) == (False, True, True)
    resumed: Any = Told(evaluated_step=0)
    Schedule(CONFIG, resumed, lambda: False).on_train_begin(None, TrainerState(global_step=3), control)
    assert resumed.told == ["check_model", "evaluate"]


def test_a_stop_at_the_last_update_still_evaluates_for_the_run_is_done() -> None:
    control = after(12, Told(), stopping=True)
    assert (control.should_evaluate, control.should_save, control.should_training_stop) == (True, True, True)


def test_what_was_evaluated_before_the_checkpoint_is_not_evaluated_again() -> None:
    trainer: Any = Told(evaluated_step=6)
    Schedule(CONFIG, trainer, lambda: False).on_train_begin(None, TrainerState(global_step=6), TrainerControl())
    assert trainer.told == ["check_model"]
