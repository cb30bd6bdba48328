"""Tasks: what a prompt is, and what a completion of it is worth. `make_task` is the table."""

from pathlib import Path

from trainers.config import CountdownTask, ExpressionsTask, TaskConfig, WordProblemsTask
from trainers.tasks.base import Completion, Judgement, Problem, Task


def make_task(config: TaskConfig, cache: Path) -> Task:
    """The task that a configuration names; its files come from the folder `cache`."""
    match config:
        case ExpressionsTask():
            from trainers.tasks.expressions import Expressions

            return Expressions(config)
        case CountdownTask() | WordProblemsTask():
            raise NotImplementedError(config.name)


__all__ = ["Completion", "Judgement", "Problem", "Task", "make_task"]
