"""The two halves of the validation problems: one on which a sweep chooses configs, one on which it measures them.

A config that is lucky on some problems is lucky on them with every seed. Measured on the problems that chose it, it
looks better than it is, however many fresh seeds measure it. Imports no torch.
"""

from collections.abc import Sequence
from typing import Final

PARTS: Final = ("tune_part", "confirm_part")
MIN_PROBLEMS: Final = 8
"""Smallest number of problems of a part; a smaller one would say too little, so then there are no parts."""
PART_METRICS: Final = (
    "eval/avg_at_k",
    "eval/avg_at_k_se",
    "eval/reward_mean",
    "eval/reward_mean_se",
    "eval/pass_at_k",
    "eval/pass_at_k_se",
)
"""Metrics of an evaluation that it also computes over each part."""


def split_problems(names: Sequence[str]) -> dict[str, list[int]]:
    """Return the indices of the problems of each part; empty if there are too few problems.

    The lower half of the names is the tune part, so a problem's part depends on the contents alone and is the same for
    all seeds and sweeps over these problems. Problems of one name stay together.

    Args:
        names: names made from the problems' contents (`problem_name`).
    """
    different = sorted(set(names))
    half = (len(different) + 1) // 2
    if len(different) - half < MIN_PROBLEMS:
        return {}
    first = different[half]
    tune = [index for index, name in enumerate(names) if name < first]
    return {"tune_part": tune, "confirm_part": [index for index, name in enumerate(names) if name >= first]}


def part_metric(name: str, part: str) -> str:
    """Return the name of a metric over one part: `eval/tune_part/avg_at_k`."""
    return f"eval/{part}/{name.removeprefix('eval/')}"
