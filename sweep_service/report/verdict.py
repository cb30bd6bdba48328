"""From confirm results to comparisons and the verdict's sentence."""

from collections.abc import Mapping, Sequence
from typing import Final

from sweep_service.records import Config, Role
from sweep_service.report.labels import count, interval, number, signed
from sweep_service.report.model import Comparison, ConfigRow, Outcome, Verdict
from sweep_service.report.stats import MIN_SEEDS, Arm, Difference, differences

COMPARATORS: Final = (Role.BASELINE, Role.DAPO, Role.MATCHED)
"""In the order in which they are asked for; the first one present is the verdict's."""
_KIND: Final = {Role.BASELINE: "the baseline", Role.DAPO: "DAPO", Role.MATCHED: "its matched baseline"}


def compare(
    configs: Sequence[Config], rows: Mapping[str, ConfigRow], candidates: Sequence[str], unsteady: frozenset[str]
) -> list[Comparison]:
    """Compare every candidate with every comparator on the confirm seeds, the best one first.

    Args:
        configs: all configs.
        rows: their results, by config id.
        candidates: ids of the configs that tuning chose.
        unsteady: ids of configs of which a confirm trial collapsed.
    """
    arms = [
        Arm(config.id, {seed.seed: seed.value for seed in stage.seeds}, config.id not in unsteady)
        for config in configs
        if (stage := rows[config.id].confirm) is not None and stage.seeds
    ]
    present = {arm.config_id for arm in arms}
    wanted = [id_ for id_ in candidates if id_ in present]
    found: list[Comparison] = []
    seen: set[str] = set()
    for role in COMPARATORS:
        comparator = next((config for config in configs if role in config.roles and config.id in present), None)
        if comparator is None or comparator.id in seen:
            continue
        seen.add(comparator.id)
        results = sorted(differences(arms, comparator.id, wanted), key=lambda result: -result.estimate)
        found += [_comparison(result, role, rows, len(results)) for result in results]
    return found


def _comparison(result: Difference, role: Role, rows: Mapping[str, ConfigRow], family: int) -> Comparison:
    half = result.half_width
    low, high = (None, None) if half is None else (result.estimate - half, result.estimate + half)
    outcome = Outcome.TIED
    if low is None or high is None:
        outcome = Outcome.INSUFFICIENT
    elif low > 0:
        outcome = Outcome.BETTER
    elif high < 0:
        outcome = Outcome.WORSE
    return Comparison(
        config_id=result.config_id,
        label=rows[result.config_id].label,
        comparator_id=result.comparator_id,
        comparator_role=role,
        comparator_label=rows[result.comparator_id].label,
        outcome=outcome,
        num_seeds=result.num_seeds,
        difference=result.estimate,
        low=low,
        high=high,
        standard_error=result.standard_error,
        df=result.df,
        variance=None if result.standard_error is None else "pooled" if result.pooled else "pair",
        family=family,
        detectable=result.detectable,
    )


def judge(best: ConfigRow | None, comparisons: Sequence[Comparison], *, confirming: bool) -> Verdict:
    """Say what the numbers say about the best config.

    Args:
        best: the best candidate by confirm mean; without confirm results, by tune mean; None if nothing succeeded.
        comparisons: of all candidates.
        confirming: whether the sweep has a confirm stage.
    """
    if best is None:
        return Verdict(
            outcome=Outcome.INSUFFICIENT, sentence="INSUFFICIENT: no config of the space has a result to judge."
        )
    if best.confirm is None or not best.confirm.n:
        return _unconfirmed(best, confirming=confirming)
    comparison = next((found for found in comparisons if found.config_id == best.id), None)
    if comparison is None:
        mean = f"{number(best.confirm.mean)} {interval(best.confirm.low, best.confirm.high)}".strip()
        sentence = (
            f"INSUFFICIENT: there is no confirmed baseline to compare with. {best.label} has the highest confirm "
            f"mean, {mean}, {count(best.confirm.n, 'confirm seed')}."
        )
        return Verdict(outcome=Outcome.INSUFFICIENT, sentence=sentence)
    return Verdict(outcome=comparison.outcome, sentence=_sentence(comparison), comparison=comparison)


def _unconfirmed(best: ConfigRow, *, confirming: bool) -> Verdict:
    assert best.tune is not None
    leader = f"{best.label} leads on the tune seeds with {number(best.tune.mean)} ({count(best.tune.n, 'seed')})"
    if confirming:
        sentence = f"INSUFFICIENT: no confirm trial of a chosen config has a result. {leader}, which is no finding."
        return Verdict(outcome=Outcome.INSUFFICIENT, sentence=sentence)
    sentence = f"EXPLORATORY: {leader}, but it was chosen on these seeds and confirmed on no others."
    return Verdict(outcome=Outcome.EXPLORATORY, sentence=sentence)


def _sentence(comparison: Comparison) -> str:
    label, kind = comparison.label, _KIND[comparison.comparator_role]
    against = kind if comparison.comparator_label in kind else f"{kind} ({_bare(comparison.comparator_label)})"
    figures = " ".join(
        part for part in (signed(comparison.difference), interval(comparison.low, comparison.high, sign=True)) if part
    )
    seeds = count(comparison.num_seeds, "confirm seed")
    match comparison.outcome:
        case Outcome.BETTER | Outcome.WORSE as outcome:
            return f"{outcome}: {label} is {outcome.lower()} than {against}: {figures}, {seeds}."
        case Outcome.TIED:
            return f"TIED: {label} cannot be told apart from {against}: {figures}, {seeds}."
        case _:
            need = f"an interval needs at least {MIN_SEEDS}"
            return f"INSUFFICIENT: {label} minus {against} is {figures} on {seeds}; {need}."


def _bare(label: str) -> str:
    """A comparator's parameters without the word that says what it is."""
    for word in ("baseline ", "matched "):
        label = label.removeprefix(word)
    return label
