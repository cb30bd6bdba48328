"""One of several processes that share the statistics of a step; its argument is the folder it writes to."""

import json
import sys
from pathlib import Path

from accelerate import Accelerator
from torch import Tensor

from tests.unit.trainers.record.step_batches import Step, random_step, rows_of
from trainers.record.rollout_stats import rollout_stats
from trainers.record.step_stats import StepStats
from trainers.tasks.base import Completion, Judgement

LEARNING_RATE = 0.01
SHARES = (((0, 1), (1, 6)), ((6, 9),))
"""The rows of the device batches of each process: unequal numbers of batches and tokens."""


def step() -> Step:
    return random_step(7, rows=9)


def groups() -> list[list[tuple[Completion, Judgement]]]:
    """Three groups of four; the first process has two of them."""
    rewards = [[1.0, 0.0, 0.0, None], [1.0, 1.0, 1.0, 1.0], [0.0, 0.5, 0.0, 0.0]]
    return [
        [
            (Completion("", 3 * row + column, column == 2), Judgement(reward, reward == 1.0, str(column % 2), row == 2))
            for column, reward in enumerate(group)
        ]
        for row, group in enumerate(rewards)
    ]


def part_of(whole: Step, start: int, end: int) -> Step:
    """Rows of the step with losses as `Totals` divides them: their mean over the processes is the whole's."""
    part = rows_of(whole, start, end)
    values = part.objective._asdict().items()
    scaled = {name: value * len(SHARES) for name, value in values if isinstance(value, Tensor)}
    return part._replace(objective=part.objective._replace(**scaled))


def main(folder: Path) -> None:
    accelerator = Accelerator(cpu=True)
    rank = accelerator.process_index
    assert accelerator.num_processes == len(SHARES)
    stats = StepStats()
    for start, end in SHARES[rank]:
        part_of(step(), start, end).add_to(stats)
    share = groups()[:2] if rank == 0 else groups()[2:]
    result = {
        "step": stats.reduced(accelerator, LEARNING_RATE),
        "rollout": rollout_stats(share, 2 * len(share), accelerator),
    }
    (folder / f"{rank}.json").write_text(json.dumps(result), encoding="utf-8")
    accelerator.end_training()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
