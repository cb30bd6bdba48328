"""Drops only contenders that are proved worse than another one, on the same seeds and problems.

After each seed, from the third on, every contender that is left is compared with every other one, seed by seed. The
bound is Dunnett's, one-sided, at the level over the number of looks, for all contenders that the sweep began with. The
best one is dropped only if one of these comparisons is wrong, which over all looks happens in at most the level, if
runs to come are like those so far: a rival that is ruined in some runs, but in none of the first, looks better than it
is. The `top_k` best so far always go on.
"""

import math
from collections.abc import Mapping

from sweep_service.report.statistics.critical_values import lower_critical
from sweep_service.report.statistics.differences import Arm, Pairs
from sweep_service.stopping.standing import Standing
from sweep_service.sweep.records import Judgement
from sweep_service.sweep.spec import MIN_SEEDS


def looks(num_seeds: int) -> range:
    """Return the numbers of seeds after which contenders are compared; none saves anything after the last."""
    return range(MIN_SEEDS, num_seeds)


def judge(standing: Standing, level: float) -> list[Judgement]:
    """Judge all contenders that are left once the runs of the next look are over; return [] until then.

    Args:
        level: largest probability with which the best contender is dropped in a whole sweep.
    Returns: judgements whose value is the mean difference from the rival, and whose bound is the one below which a
        difference proves it worse, both of the rival for which they prove most; None where results do not vary.
    """
    times = looks(len(standing.seeds))
    look = standing.next_look(times)
    if look is None:
        return []
    arms = [
        Arm(config_id, standing.results(config_id, look), steady=not _ruined(standing, config_id, look))
        for config_id in standing.left
    ]
    pairs, family = Pairs(arms), len(standing.runs) - 1
    found = [_judgement(arm.config_id, pairs, arms, family, 1 - 2 * level / len(times), look) for arm in arms]
    means = {config_id: mean for config_id, mean in standing.means(look).items() if mean is not None}
    return standing.carried_out(found, sorted(means, key=lambda one: -means[one])[: standing.top_k])


def _ruined(standing: Standing, config_id: str, look: int) -> bool:
    runs = standing.runs[config_id]
    return any(runs[seed].ruined for seed in standing.seeds[:look])


def _judgement(config_id: str, pairs: Pairs, arms: list[Arm], family: int, confidence: float, look: int) -> Judgement:
    worst, margin = (
        Judgement(config_id=config_id, dropped=False, seed=None, mark=look, value=None, bound=None),
        math.inf,
    )
    for rival in arms:
        if rival.config_id == config_id:
            continue
        found = pairs.difference(rival.config_id, config_id)
        if found.seed_error is None or found.df is None:
            continue
        value, bound = -found.difference, -lower_critical(family, found.df, confidence=confidence) * found.seed_error
        if value - bound < margin:
            margin = value - bound
            worst = worst.model_copy(update={"value": value, "bound": bound, "rival": rival.config_id})
    return worst


def words(judgement: Judgement, names: Mapping[str, str]) -> str:
    """Say why a contender is dropped; `names` has those of configs by id."""
    value, bound = -(judgement.value or 0.0), -(judgement.bound or 0.0)
    rival = names.get(judgement.rival or "", "another")
    return f"after {judgement.mark} tune seeds it is {value:.3g} below {rival}, and {bound:.3g} proves it worse"
