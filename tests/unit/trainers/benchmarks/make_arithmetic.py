"""Makes arithmetic.jsonl, the benchmark that comes with the package.

python -m tests.unit.trainers.benchmarks.make_arithmetic > trainers/benchmarks/data/arithmetic.jsonl
"""

import random
import sys
from typing import Final

from trainers.benchmarks.problems import BenchmarkProblem, jsonl

_SEED: Final = 20250920
_LARGEST: Final = 99
_PROBLEMS: Final = 40


def problems() -> list[BenchmarkProblem]:
    """Ten each of sums, differences, products and remainders, each text once."""
    generator, texts = random.Random(_SEED), dict[str, int]()
    while len(texts) < _PROBLEMS:
        a, b = generator.randint(10, _LARGEST), generator.randint(2, 9)
        text, answer = [
            (f"What is {a} plus {10 * b}?", a + 10 * b),
            (f"What is {a} minus {11 * b}?", a - 11 * b),
            (f"What is {a} times {b}?", a * b),
            (f"What is the remainder of {a} divided by {b}?", a % b),
        ][len(texts) % 4]
        texts.setdefault(text, answer)
    return [
        BenchmarkProblem(id=f"arithmetic-{number:02d}", problem=text, answer=str(answer), source=f"seed {_SEED}")
        for number, (text, answer) in enumerate(texts.items(), 1)
    ]


if __name__ == "__main__":
    sys.stdout.write(jsonl(problems()))
