"""The results of configs in one stage, as the statistics take them: `Arm`s."""

from collections.abc import Collection, Mapping
from statistics import fmean

from sweep_service.report.model import ConfigRow
from sweep_service.report.statistics.differences import Arm


def confirmed_arms(
    rows: Mapping[str, ConfigRow],
    unsteady: frozenset[str],
    rates: Mapping[str, Mapping[str, float]],
    without: Collection[str] = (),
) -> list[Arm]:
    """Return the confirm results of every config that has one.

    Args:
        unsteady: ids of configs that had a confirm trial that collapsed.
        rates: share of right samples by confirm trial and problem, of trials that counted them.
        without: ids of trials that are left out.
    """
    arms = list[Arm]()
    for row in rows.values():
        stage = row.confirm
        if stage is not None and stage.seeds:
            seeds = [seed for seed in stage.seeds if seed.trial_id not in without]
            counted = {seed.seed: rates[seed.trial_id] for seed in seeds if seed.trial_id in rates}
            values = {seed.seed: seed.value for seed in seeds}
            arms.append(Arm(row.id, values, row.id not in unsteady, counted))
    return arms


def tuned_arms(rows: Mapping[str, ConfigRow], rates: Mapping[str, Mapping[str, float]]) -> list[Arm]:
    """Return the tune results of every config that has one; of trials that counted, on the problems of `rates`."""
    arms = list[Arm]()
    for row in rows.values():
        if row.tune is not None and row.tune.seeds:
            counted = {seed.seed: rates[seed.trial_id] for seed in row.tune.seeds if rates.get(seed.trial_id)}
            values = {seed.seed: seed.value for seed in row.tune.seeds}
            values |= {seed: fmean(own.values()) for seed, own in counted.items()}
            arms.append(Arm(row.id, values, rates=counted))
    return arms
