"""The two halves of the validation problems: one on which a sweep chooses configs, one on which it measures them.

A config that is lucky on some problems is lucky on them with every seed. Measured on the problems that chose it, it
looks better than it is, however many fresh seeds measure it. So may one that is lucky on a family of problems, which
is why a group of them lies in one half and counts once. Imports no torch.
"""

import hashlib
from collections.abc import Sequence
from typing import Final

PARTS: Final = ("tune_part", "confirm_part")
MIN_PROBLEMS: Final = 8
"""Smallest number of groups of problems of a part; fewer would say too little, so then there are no parts."""
PART_METRICS: Final = (
    "eval/avg_at_k",
    "eval/avg_at_k_se",
    "eval/reward_mean",
    "eval/reward_mean_se",
    "eval/pass_at_k",
    "eval/pass_at_k_se",
)
"""Metrics of an evaluation that it also computes over each part."""
_GROUP, _WITHIN, _OTHERS = 12, 12, 4  # hexadecimal digits


def digest_name(group: str, content: str, *, grouped: bool) -> str:
    """Name a problem by digests: 12 digits of its group's SHA-256, and some of its content's, 4 if it has no group.

    Args:
        group: the group's text; of a problem without a group the text by which equal problems are equal.
        content: the text in which problems of one group differ.
        grouped: whether the problem has a group; then 12 digits tell the problems of one apart.
    """
    first, second = (hashlib.sha256(text.encode()).hexdigest() for text in (group, content))
    return first[:_GROUP] + second[: _WITHIN if grouped else _OTHERS]


def problem_group(name: str) -> str:
    """Return the group of the problem with this name; problems of different groups are independent of each other."""
    return name[:_GROUP]


def split_problems(names: Sequence[str]) -> dict[str, list[int]]:
    """Return the indices of the problems of each part; empty if there are too few groups of problems.

    The lower half of the groups is the tune part, so a problem's part depends on the contents alone and is the same for
    all seeds and sweeps over these problems. Problems of one group stay together.

    Args:
        names: names made from the problems' contents (`problem_name`).
    """
    groups = [problem_group(name) for name in names]
    different = sorted(set(groups))
    half = (len(different) + 1) // 2
    if len(different) - half < MIN_PROBLEMS:
        return {}
    first = different[half]
    tune = [index for index, group in enumerate(groups) if group < first]
    return {"tune_part": tune, "confirm_part": [index for index, group in enumerate(groups) if group >= first]}


def part_metric(name: str, part: str) -> str:
    """Return the name of a metric over one part: `eval/tune_part/avg_at_k`."""
    return f"eval/{part}/{name.removeprefix('eval/')}"
