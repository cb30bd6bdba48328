"""Says how often a store's sweeps have asked a question before, and what all of them found together."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from sweep_service.report.findings.rule import Evidence
from sweep_service.report.formatting import count, estimate
from sweep_service.report.model import Comparison, Outcome
from sweep_service.report.statistics.critical_values import CONFIDENCE
from sweep_service.report.statistics.differences import MIN_SEEDS, mean_interval
from sweep_service.report.sweep_facts import Facts
from sweep_service.report.verdict.ruin import percent
from sweep_service.sweep.records import AskedBefore, Stage

_ERRS: Final = (1 - CONFIDENCE) / 2
"""Largest probability with which a sweep puts a config ahead that is not, by either word."""
_WITHOUT_TEST: Final = (Outcome.INSUFFICIENT, Outcome.EXPLORATORY)
_OF_THESE_PROBLEMS: Final = tuple(outcome for outcome in Outcome if outcome.is_of_these_problems)
_LISTED: Final = 6


def asked_before(facts: Facts) -> Evidence | None:
    """Find earlier sweeps that asked the same question, with their answers and what being ahead is worth then."""
    earlier, own = facts.inputs.asked_before, facts.verdict.outcome
    if not earlier:
        return None
    answers = Counter(one.outcome for one in earlier)
    listed = ", ".join(f"{n} {outcome}" for outcome, n in answers.most_common())
    tests = sum(outcome not in _WITHOUT_TEST for outcome in (*(one.outcome for one in earlier), own))
    texts = [
        f"This is sweep {len(earlier) + 1} of this store that asks the same question. The earlier ones say {listed}: "
        f"{_listed(earlier)}."
    ]
    if tests > 1:
        luck, of_problems = percent(1 - (1 - _ERRS) ** tests), ""
        if any(outcome in _OF_THESE_PROBLEMS for outcome in (*answers, own)):
            of_problems = ", more if luck with problems counts, where an answer is ON THESE PROBLEMS"
        texts.append(
            f"If no config were better in any of them, at least one of {tests} answers would put one ahead by luck in "
            f"up to {luck} of all cases{of_problems}."
        )
    if facts.verdict.comparison is not None:
        texts += _pooled(facts, facts.verdict.comparison)
    return Evidence(" ".join(texts))


def _pooled(facts: Facts, comparison: Comparison) -> list[str]:
    """Give the difference over the confirm seeds of all comparable sweeps; nothing if there are no other seeds."""
    measure = facts.inputs.measures[Stage.CONFIRM]
    stages = [facts.rows[id_].confirm for id_ in comparison.pair]
    differences = _paired([stage.by_seed if stage else {} for stage in stages])
    own, helping = len(differences), list[AskedBefore]()
    for one in facts.inputs.asked_before:
        if one.measured_by == measure:
            earlier = _paired([one.confirmed.get(id_, {}) for id_ in comparison.pair])
            fresh = {seed: value for seed, value in earlier.items() if seed not in differences}
            helping += [one] if fresh else []
            differences |= fresh
    if not helping or len(differences) < MIN_SEEDS:
        return []
    together = mean_interval(list(differences.values()))
    text = estimate(together.mean, together.low, together.high, sign=True)
    return [
        f"{_listed(helping)} confirmed the same two configs on {count(len(differences) - own, 'other seed')}. Over all "
        f"{len(differences)} seeds the difference is {text} (Student's 95 % interval of the pairs, collapsed runs "
        "included). It is too high if these configs are in this sweep because they did well there."
    ]


def _paired(values: Sequence[Mapping[int, float]]) -> dict[int, float]:
    """Return the first config's result minus the second's, by seed."""
    one, other = values
    return {seed: one[seed] - other[seed] for seed in sorted(one.keys() & other.keys())}


def _listed(sweeps: Sequence[AskedBefore]) -> str:
    """Name the newest of some sweeps, and say how many more there are."""
    more = f"{len(sweeps) - _LISTED} more and " if len(sweeps) > _LISTED else ""
    return more + ", ".join(f"{one.name} ({one.sweep_id})" for one in sweeps[-_LISTED:])
