"""The median rule of Vizier (Golovin et al. 2017): a run ends whose best evaluation others have beaten on average.

A run is judged at each of its evaluations after the grace. Its best one so far is held against the median of the means
that the other runs of its seed had had by that step. So judgements depend on which runs are there.
"""

from collections.abc import Mapping
from statistics import fmean, median

from sweep_service.stopping.standing import Run, Standing
from sweep_service.sweep.records import Judgement


def judge(standing: Standing, grace: float, min_runs: int) -> list[Judgement]:
    """Judge each run at its newest evaluation, unless it was judged there.

    Args:
        grace: share of the steps before which no run is stopped.
        min_runs: number of other runs that must have got as far.
    Returns: judgements whose value is the run's best evaluation, and whose bound is the median of the others' means.
    """
    new = list[Judgement]()
    done = {(one.config_id, one.seed, one.mark) for one in standing.judged}
    for config_id, runs in standing.runs.items():
        for seed, run in runs.items():
            step = run.steps[-1] if run.steps else 0
            if run.is_over or step < grace * standing.total_steps or (config_id, seed, step) in done:
                continue
            others = (own[seed] for id_, own in standing.runs.items() if id_ != config_id and seed in own)
            means = [_mean_until(other, step) for other in others if other.steps and other.steps[-1] >= step]
            if len(means) >= min_runs:
                best, bound = max(run.values), median(means)
                new.append(Judgement(config_id=config_id, dropped=False, seed=seed, mark=step, value=best, bound=bound))
    return standing.carried_out(new)


def _mean_until(run: Run, step: int) -> float:
    return fmean(value for at, value in zip(run.steps, run.values, strict=True) if at <= step)


def words(judgement: Judgement, names: Mapping[str, str]) -> str:
    """Say why a contender is dropped."""
    found = f"by step {judgement.mark} its run of seed {judgement.seed} has {judgement.value or 0.0:.3g} at its best"
    return f"{found}, and half of the others have more than {judgement.bound or 0.0:.3g} on average"
