"""Asynchronous successive halving (arXiv 1810.05934), of the kind that stops runs: at each rung the best part goes on.

A run is judged once at each rung, against the other runs of its seed that have reached it; the first always goes on. So
judgements depend on which run is faster.
"""

from collections.abc import Mapping

import numpy as np

from sweep_service.stopping.standing import Standing
from sweep_service.sweep.records import Judgement


def rung_steps(total_steps: int, grace: float, reduction: int) -> list[int]:
    """Return the steps of the rungs, ascending: the grace, then `reduction` times as many, and so on below the end."""
    steps, step = list[int](), grace * total_steps
    while round(step) < total_steps:
        steps.append(max(1, round(step)))
        step *= reduction
    return list(dict.fromkeys(steps))


def judge(standing: Standing, grace: float, reduction: int) -> list[Judgement]:
    """Judge each run that has reached a rung at which it was not judged yet, in the order of the contenders.

    Args:
        grace: share of the steps before which no run is stopped.
        reduction: the best 1 / `reduction` of the runs at a rung go on.
    Returns: judgements whose value is the run's at the rung, and whose bound is the least with which it goes on.
    """
    new = list[Judgement]()
    done = {(one.config_id, one.seed, one.mark) for one in standing.judged}
    for step in rung_steps(standing.total_steps, grace, reduction):
        for seed in standing.seeds:
            of_seed = {config_id: runs[seed] for config_id, runs in standing.runs.items() if seed in runs}
            found = {config_id: run.value_at(step, standing.last) for config_id, run in of_seed.items()}
            reached = {config_id: value for config_id, value in found.items() if value is not None}
            for config_id, value in reached.items():
                if of_seed[config_id].is_over or (config_id, seed, step) in done:
                    continue
                others = [other for id_, other in reached.items() if id_ != config_id]
                bound = float(np.percentile(others, 100 - 100 / reduction)) if others else None
                new.append(
                    Judgement(config_id=config_id, dropped=False, seed=seed, mark=step, value=value, bound=bound)
                )
    return standing.carried_out(new)


def words(judgement: Judgement, names: Mapping[str, str]) -> str:
    """Say why a contender is dropped."""
    found = f"at step {judgement.mark} its run of seed {judgement.seed} has {judgement.value or 0.0:.3g}"
    return f"{found}, and of those that got so far the best go on, from {judgement.bound or 0.0:.3g}"
