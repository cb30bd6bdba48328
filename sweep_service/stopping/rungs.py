"""Halves the contenders twice: after a quarter of the seeds and after half of them only the best go on.

Runs are never cut: at equal cost, whole runs on few seeds choose better than parts of runs do where curves cross or
rise late, and hardly worse elsewhere (docs/early_stopping.md).
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from sweep_service.report.formatting import count
from sweep_service.stopping.standing import Standing
from sweep_service.sweep.records import Judgement

SHARE: Final = 0.45
"""Largest share of the contenders' runs that is trained, where their number allows it."""


class Rung(NamedTuple):
    """A number of seeds after which only the best contenders go on."""

    seeds: int
    keep: int


def rungs(contenders: int, num_seeds: int, top_k: int) -> list[Rung]:
    """Return the rungs; [] if they would save nothing.

    The last one keeps as many as the confirm stage needs, the first one as many as `SHARE` allows.
    """
    first, second = max(1, num_seeds // 4), num_seeds // 2
    if top_k >= contenders or num_seeds < 2:
        return []
    if second <= first:
        return [Rung(first, top_k)]
    rest = SHARE * contenders * num_seeds - first * contenders - (num_seeds - second) * top_k
    keep = min(contenders, max(top_k, int(rest / (second - first))))
    return [Rung(first, keep), Rung(second, top_k)]


def runs_trained(contenders: int, num_seeds: int, top_k: int) -> int:
    """Return the number of the contenders' runs that are trained."""
    left, before, runs = contenders, 0, 0
    for rung in rungs(contenders, num_seeds, top_k):
        runs += left * (rung.seeds - before)
        left, before = rung.keep, rung.seeds
    return runs + left * (num_seeds - before)


def judge(standing: Standing) -> list[Judgement]:
    """Judge all contenders that are left once the runs of the next rung are over; return [] until then.

    They are ranked by how far they lie above the mean of all on the same seed, over the seeds on which they have a
    result. Without a result they come last.

    Returns: judgements whose value is this mean, and whose bound is that of the last contender that goes on.
    """
    plan = {rung.seeds: rung.keep for rung in rungs(len(standing.runs), len(standing.seeds), standing.top_k)}
    look = standing.next_look(plan)
    if look is None:
        return []
    values = standing.means(look)
    ranked = sorted((value for value in values.values() if value is not None), reverse=True)
    bound = ranked[min(plan[look], len(ranked)) - 1] if ranked else None
    return standing.carried_out(
        [
            Judgement(config_id=id_, dropped=False, seed=None, mark=look, value=value, bound=bound)
            for id_, value in values.items()
        ]
    )


def words(judgement: Judgement, names: Mapping[str, str]) -> str:
    """Say why a contender is dropped."""
    if judgement.value is None:
        return f"after {count(judgement.mark, 'tune seed')} it has no result"
    found = f"it is {judgement.value:+.3g} from the mean of those left"
    return f"after {count(judgement.mark, 'tune seed')} {found}, and those from {judgement.bound or 0.0:+.3g} on go on"
