"""Makes expressions.jsonl, the benchmark of the task "expressions" that comes with the package.

python -m tests.unit.trainers.benchmarks.make_expressions > trainers/benchmarks/data/expressions.jsonl
"""

import random
import sys
from itertools import pairwise
from typing import Final

from trainers.benchmarks.problems import BenchmarkProblem, jsonl
from trainers.config import ExpressionsTask

_SEED: Final = 20250920
_PROBLEMS: Final = 24


def problems() -> list[BenchmarkProblem]:
    """One number of each of 24 equal parts of the task's numbers, none of them every fifth one."""
    task, generator = ExpressionsTask(validation_every=5), random.Random(_SEED)
    numbers = range(task.smallest, task.largest + 1)
    validated = set(numbers[task.validation_every - 1 :: task.validation_every])
    bounds = [len(numbers) * part // _PROBLEMS for part in range(_PROBLEMS + 1)]
    parts = [numbers[begin:end] for begin, end in pairwise(bounds)]
    drawn = [generator.choice([number for number in part if number not in validated]) for part in parts]
    return [
        BenchmarkProblem(
            id=f"expressions-{number:02d}", problem=f"{number}=", answer=str(number), source="the task expressions"
        )
        for number in drawn
    ]


if __name__ == "__main__":
    sys.stdout.write(jsonl(problems()))
