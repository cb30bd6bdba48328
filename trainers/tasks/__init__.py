"""Tasks: what a prompt is, and what a completion of it is worth. `make_task` is the table."""

from trainers.config import ExpressionsTask
from trainers.tasks.base import Problem, Task
from trainers.tasks.expressions import Expressions


def make_task(config: ExpressionsTask) -> Task:
    """The task that a configuration names."""
    return Expressions(config)


__all__ = ["Expressions", "Problem", "Task", "make_task"]
