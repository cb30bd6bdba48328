"""Tasks give prompts and judge completions of them; `make_task` is the table of all."""

from pathlib import Path

from trainers.config import CountdownTask, ExpressionsTask, TaskConfig, WordProblemsTask
from trainers.tasks.base import Completion, Judgement, Problem, Task, by_length


def make_task(config: TaskConfig, cache: Path) -> Task:
    """Make the task that a configuration names, with datasets of the catalog in `cache`; whoever calls this closes it.

    Raises: ConfigError, if the task cannot be made of this configuration on this machine.
    """
    match config:  # each imports its own: rewards are built on this package, and word problems on rewards
        case ExpressionsTask():
            from trainers.tasks.expressions import Expressions

            return Expressions(config, cache)
        case CountdownTask():
            from trainers.tasks.countdown import Countdown

            return Countdown(config)
        case WordProblemsTask():
            from trainers.tasks.word_problems import WordProblems

            return WordProblems(config, cache)


__all__ = ["Completion", "Judgement", "Problem", "Task", "by_length", "make_task"]
