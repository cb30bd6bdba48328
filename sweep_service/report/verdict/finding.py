"""The sentence of a comparison: what is shown, what the runs leave open, and what one bets on meanwhile.

What has to be true for it to be true: docs/statistics.md, "What is claimed".
"""

from sweep_service.report.formatting import count, estimate, no_more
from sweep_service.report.model import Comparison, Outcome
from sweep_service.report.statistics.differences import EQUAL, MIN_SEEDS
from sweep_service.report.verdict.comparators import KINDS
from sweep_service.report.verdict.ruin import at_most, counts_text, percent
from sweep_service.sweep.records import Role

_VERBS = {
    Outcome.BETTER: "is better than",
    Outcome.WORSE: "is worse than",
    Outcome.AHEAD: "is ahead of",
    Outcome.BEHIND: "is behind",
    Outcome.AHEAD_HERE: "is ahead of",
    Outcome.BEHIND_HERE: "is behind",
    Outcome.UNDECIDED: "cannot be told apart from",
}


def finding(comparison: Comparison, relevant: float) -> str:
    """Return the sentence, which begins with the outcome."""
    label, against = comparison.label, named(comparison.comparator_role, comparison.comparator_label)
    figures, outcome = estimate(comparison.difference, comparison.low, comparison.high, sign=True), comparison.outcome
    seeds = _seeds(comparison)
    if outcome is Outcome.INSUFFICIENT:
        need = f"an interval needs at least {MIN_SEEDS}" if comparison.num_seeds < MIN_SEEDS else EQUAL
        remedy = "; more confirm seeds train on what there is now" if comparison.batch else ""
        return f"{outcome}: {label} minus {against} is {figures} on {seeds}; {need}{remedy}."
    if outcome.sign == 0:
        text = f"{label} and {against} differ by less than {relevant:g}, the smallest difference that matters here"
    else:
        text = f"{label} {_VERBS[outcome]} {against}"
    text = f"{text}{_extent(comparison, relevant)}"
    if outcome.is_of_all or (outcome is Outcome.UNDECIDED and comparison.spoilt):
        of = "With ruined runs" if comparison.with_ruined else "In sound runs"
        text = f"over all runs {text}. {of} the difference is {figures}, {seeds}"
    else:
        here = " on these problems" if outcome.is_of_these_problems else ""
        open_ = "" if _is_decided(comparison, relevant) else ". Over all runs that is open"
        text = f"in sound runs{here} {text}: {figures}, {seeds}{open_}"
    return f"{outcome}: {text}. {_rates(comparison, against)}{_missing(comparison, against)}{_bet(comparison)}"


def _is_decided(comparison: Comparison, relevant: float) -> bool:
    """Say whether the interval of averages over all runs decides what the outcome says of sound ones."""
    low, high, sign = comparison.average_low, comparison.average_high, comparison.outcome.sign
    if low is None or high is None:
        return False
    if sign == 0:
        return max(abs(low), abs(high)) < relevant
    return low > 0 if sign == 1 else high < 0 if sign == -1 else low > 0 or high < 0


def _seeds(comparison: Comparison) -> str:
    """Count the seeds of a comparison, and name the batch of its runs if other seeds are left out."""
    if not comparison.batch:
        return count(comparison.num_seeds, "confirm seed")
    of = count(comparison.num_seeds + comparison.other_seeds, "confirm seed")
    return f"{comparison.num_seeds} of {of}, those on which both trained {comparison.batch}"


def _extent(comparison: Comparison, relevant: float) -> str:
    """Say by how much an outcome holds at the least, and whether that matters."""
    low, high = comparison.low, comparison.high
    if comparison.outcome.is_of_all:
        low, high = comparison.average_low, comparison.average_high
    if not comparison.outcome.sign or low is None or high is None:
        return ""
    least = no_more(min(abs(low), abs(high)))
    by = f", by at least {least} with as much ruin as may be" if comparison.outcome.is_of_all else ""
    return by + _but_small(low, high, relevant)


def _rates(comparison: Comparison, against: str) -> str:
    """Say how many runs of both were ruined, and how many may be."""
    own, other = comparison.own, comparison.other
    if not comparison.spoilt and own == other:
        runs, most = count(own.runs, "run"), percent(own.bound)
        return f"Neither was ruined in {runs}, but up to {most} of each one's runs may be."
    sides = [(own, comparison.label, Outcome.WORSE), (other, against, Outcome.BETTER)]
    return " ".join(
        counts_text(runs, name, at_least=comparison.outcome is ruined_one) for runs, name, ruined_one in sides
    )


def _missing(comparison: Comparison, against: str) -> str:
    """Say how many runs are missing of a config of which more are than of the other; empty if there is none."""
    sides = (comparison.own, comparison.label), (comparison.other, against)
    (most, name), (least, rest) = sorted(sides, key=lambda side: -side[0].missing)
    if most.missing == least.missing:
        return ""
    more, of = most.missing - least.missing, count(most.runs + most.missing, "run")
    be, they = ("is", "it may be its worst one") if most.missing == 1 else ("are", "they may be its worst ones")
    than = f", {more} more than of {rest}" if least.missing else ""
    return f" {most.missing} of {of} of {name} {be} missing{than}; {they}, which the interval allows for."


def _bet(comparison: Comparison) -> str:
    """Say on what one bets who acts on what sound runs show; nothing if more runs were ruined than that allows."""
    if comparison.average_low is None:
        return " Averages over all runs stay open: no objective.diverged below every result says how bad a ruin may be."
    if comparison.tolerated is None:
        return ""
    most, other = at_most(comparison.tolerated), KINDS[comparison.comparator_role]
    if comparison.outcome is Outcome.ALIKE:
        return f" Taking them as alike over all runs is a bet that {most} of the runs of each are ruined."
    ahead = comparison.difference > 0
    leads, label = (comparison.own, comparison.label) if ahead else (comparison.other, other)
    bet = f" Choosing {label} is a bet that {most} of its runs are ruined."
    return "" if leads.seen >= comparison.tolerated else bet


def _but_small(low: float, high: float, relevant: float) -> str:
    """Say that a difference matters less than the spec asks, or may."""
    least, most = sorted((abs(low), abs(high)))
    if most < relevant:
        return f", but by less than the {relevant:g} that matters here"
    return "" if least >= relevant else f", and whether by the {relevant:g} that matters here is open"


def named(role: Role, label: str) -> str:
    """Name a comparator in a sentence: `the baseline (β1=0 β2=0)`, `DAPO`."""
    kind = KINDS[role]
    return kind if label in kind else f"{kind} ({label.removeprefix('baseline ').removeprefix('matched ')})"
