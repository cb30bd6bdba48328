"""Counts the problems that a benchmark shares with a task's training and validation problems. Imports no torch."""

from pathlib import Path

from trainers.config import ExpressionsTask, TaskConfig, WordProblemsTask
from trainers.tasks.benchmark_texts import benchmark_rows, benchmark_texts
from trainers.tasks.dataset_rows import read_dataset
from trainers.tasks.expressions import expression_problem
from trainers.tasks.same_text import same_text


def shared_problems(config: TaskConfig, benchmark: str, cache: Path) -> int:
    """Count the problems of a benchmark that are also problems of a task, up to layout.

    Args:
        benchmark: its name in the catalog in `cache`.
    Raises: ConfigError, if a dataset or benchmark is missing or damaged.
    """
    own = _texts(config, cache)
    problems = benchmark_rows(benchmark, cache, "benchmark").problems
    return sum(same_text(problem.prompt) in own for problem in problems)


def _texts(config: TaskConfig, cache: Path) -> set[str]:
    """Return the problems from which a task takes those to train and to validate on; `countdown` makes its own."""
    match config:
        case ExpressionsTask():
            numbers = range(config.smallest, config.largest + 1)
            texts = {same_text(expression_problem(number).prompt) for number in numbers}
        case WordProblemsTask():
            held_out = config.validation
            datasets = [read_dataset(config.data, cache)]
            if held_out is not None and held_out.benchmark is not None:
                datasets.append(benchmark_rows(held_out.benchmark, cache, "task.validation.benchmark"))
            elif held_out is not None:
                datasets.append(read_dataset(held_out.dataset(config.data), cache))
            texts = {same_text(text) for dataset in datasets for own in dataset.texts for text in own}
        case _:
            return set()
    return texts - benchmark_texts(config.apart_from, cache)
