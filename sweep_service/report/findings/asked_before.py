"""Says how often a store's sweeps have asked a question before, and what all of them found together."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from sweep_service.report.findings.rule import Evidence
from sweep_service.report.formatting import count, estimate
from sweep_service.report.model import Comparison, Outcome
from sweep_service.report.statistics.critical_values import CONFIDENCE
from sweep_service.report.statistics.differences import MIN_SEEDS, Arm, Pairs
from sweep_service.report.statistics.seeds_and_problems import ErrorParts
from sweep_service.report.sweep_facts import Facts
from sweep_service.report.verdict.ruin import percent
from sweep_service.sweep.records import AskedBefore, Stage

_ERRS: Final = 1 - CONFIDENCE
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
        luck, of_problems = percent(min(1.0, tests * _ERRS)), ""  # they may share runs and problems, so errors add up
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
    """Give the difference over the confirm seeds of all comparable sweeps; nothing if there are no other seeds.

    Other problems are part of its error as they are of the verdict's, for all of these sweeps ask the same ones.
    """
    arms = {arm.config_id: dict(arm.values) for arm in facts.sound_arms}
    own, helping = _common(arms, comparison), list[AskedBefore]()
    used = {trial.seed for trial in facts.trials if trial.stage is Stage.CONFIRM}
    for one in facts.inputs.asked_before:
        if one.measured_by == facts.inputs.measures[Stage.CONFIRM]:
            before = _common(arms, comparison)
            for config_id, values in one.confirmed.items():  # a seed is of one sweep, so that pairs are, too
                arms.setdefault(config_id, {}).update({s: value for s, value in values.items() if s not in used})
            used |= {seed for values in one.confirmed.values() for seed in values}
            helping += [one] if _common(arms, comparison) > before else []
    pairs = Pairs([Arm(id_, values, id_ not in facts.unsteady) for id_, values in arms.items()])
    found = pairs.difference(*comparison.pair) if pairs.has(*comparison.pair) else None
    if not helping or found is None or found.num_seeds < MIN_SEEDS:
        return []
    low = high = None
    if found.seed_error is not None and found.df is not None:
        error = ErrorParts(found.seed_error, found.df, comparison.problem_error or 0.0, comparison.problem_df or 1)
        low, high = error.interval(found.difference, 1, 0.5, 0.5, comparison.confidence)
    text = estimate(found.difference, low, high, sign=True)
    return [
        f"{_listed(helping)} confirmed the same two configs on {count(found.num_seeds - own, 'other seed')}. Over all "
        f"{found.num_seeds} seeds the difference in sound runs is {text}. It is too high if these configs are in this "
        "sweep because they did well there."
    ]


def _common(arms: Mapping[str, Mapping[int, float]], comparison: Comparison) -> int:
    """Return the number of seeds on which both configs have a sound run."""
    one, other = (arms.get(id_, {}) for id_ in comparison.pair)
    return len(one.keys() & other.keys())


def _listed(sweeps: Sequence[AskedBefore]) -> str:
    """Name the newest of some sweeps, and say how many more there are."""
    more = f"{len(sweeps) - _LISTED} more and " if len(sweeps) > _LISTED else ""
    return more + ", ".join(f"{one.name} ({one.sweep_id})" for one in sweeps[-_LISTED:])
