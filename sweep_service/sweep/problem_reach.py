"""Limits that the number of validation problems sets to what a report can show, whatever the number of seeds."""

import math
from typing import Final

from sweep_service.sweep.spec import SweepSpec
from trainers.evaluation.problem_parts import MIN_PROBLEMS

LUCK: Final = 0.1
"""Supposed sd of the share of right samples that a config gains or loses on one problem by its own luck."""
_BOUND: Final = 1.96 * math.sqrt(2)
"""Half the width of a 95 % interval of a difference of two configs, in units of one config's standard error."""


def problems_warning(spec: SweepSpec, validation_problems: int) -> str | None:
    """Return a warning if the validation problems are too few to show EQUIVALENT, with luck on each; else None.

    Args:
        validation_problems: number of all of them, of which a confirm stage may use a half.
    """
    confirm, relevant = spec.seeds.confirm, spec.objective.relevant
    if confirm is None or spec.objective.metric == "eval/reward_mean":
        return None
    halved = confirm.problems != "same" and validation_problems // 2 >= MIN_PROBLEMS
    problems = validation_problems // 2 if halved else validation_problems
    needed = math.ceil((_BOUND * LUCK / relevant) ** 2)
    if problems >= needed:
        return None
    which = "half of them, on which no config is chosen" if halved else "all of them"
    return (
        f"{validation_problems} validation problems, of which the confirm stage counts {which}: if configs have luck "
        f"of their own on each (sd {LUCK:g}), no number of seeds narrows a difference below ±"
        f"{_BOUND * LUCK / math.sqrt(max(1, problems)):.2g}; EQUIVALENT within objective.relevant {relevant:g} takes "
        f"about {needed}{' in that half' if halved else ''}"
    )
