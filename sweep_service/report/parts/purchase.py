"""Proposal of what to train next: the seeds that find a relevant difference, by the spread seen so far."""

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from scipy import stats

from sweep_service.report.formatting import count, number
from sweep_service.report.model import Comparison, ConfigRow, Outcome, Purchase, StageResult, Verdict
from sweep_service.report.parts.collapse import MOST_RUNS, percent, runs_to_exclude
from sweep_service.report.statistics.critical_values import CONFIDENCE, POWER, confidence_of, power
from sweep_service.report.statistics.differences import EQUAL, MIN_SEEDS, Arm, Pairs
from sweep_service.report.statistics.seeds_and_problems import ErrorParts
from sweep_service.sweep.records import Role, Sweep

_TOP_K: Final = 2
"""Number of configs in the confirm stage that is proposed to a sweep without one."""
_FIRST_SEEDS: Final = 6
"""Number of seeds proposed where nothing is known about the spread."""
_SURE_DF: Final = 10
"""Degrees of freedom below which a variance is hardly known: its 95 % interval spans more than a factor of 6."""


def next_purchase(
    verdict: Verdict, rows: Mapping[str, ConfigRow], arms: Sequence[Arm], sweep: Sweep, looks: int
) -> Purchase | None:
    """Say what to train next; None if the question is decided, or if seeds alone cannot decide it.

    Rows are all configs' results by id; arms are the confirmed configs; `looks` is how often their results have been
    looked at.
    """
    relevant = sweep.spec.objective.relevant
    if verdict.outcome is Outcome.EXPLORATORY:
        return _confirm_stage(rows, sweep.id, relevant)
    comparison = verdict.comparison
    if comparison is None or verdict.outcome in (Outcome.BETTER, Outcome.WORSE, Outcome.EQUIVALENT):
        return None
    if comparison.tolerated is not None:
        return _runs_without_collapse(comparison, comparison.tolerated, sweep)
    ask = _Ask(sweep.id, relevant, confidence_of(looks + 1))
    purchase = _more_seeds(comparison, rows, arms, ask)
    return purchase.model_copy(update={"text": purchase.text + _too_few_problems(comparison, ask)})


class _Ask(NamedTuple):
    """The question that more confirm seeds of a sweep are to answer."""

    sweep_id: str
    relevant: float
    """The smallest difference that matters."""
    confidence: float
    """Confidence of the interval at the next look."""


def _more_seeds(comparison: Comparison, rows: Mapping[str, ConfigRow], arms: Sequence[Arm], ask: _Ask) -> Purchase:
    """Propose more confirm seeds for the best config and its comparator."""
    relevant = ask.relevant
    ids, n = [comparison.config_id, comparison.comparator_id], comparison.num_seeds
    least = max(0, MIN_SEEDS - n)
    if not least and comparison.standard_error is None:
        text = f"{count(n, 'confirm seed')}: {EQUAL}, nor of what more seeds would show. First make results differ."
        return Purchase(text=text, config_ids=ids, more_seeds=0, difference=relevant, power=None)
    spread = _spread_of_pair(comparison) or Pairs(arms).spread() or _tune_spread([rows[id_] for id_ in ids])
    if spread is None:
        needed = count(least, "more confirm seed")
        text = f"An interval takes {needed} on these two configs; how wide it will be cannot be estimated yet."
        return Purchase(text=text, config_ids=ids, more_seeds=least, difference=relevant, power=None)
    variance, df = spread

    def power_with(more: int, times: float = 1.0) -> float:
        of_problems = comparison.problem_error or 0.0, comparison.problem_df or 1
        parts = ErrorParts(_of_seeds(times * variance, n + more), df + more, *of_problems)
        return _power(parts, comparison.family, relevant, ask.confidence)

    more, reached = _fewest(power_with, least)
    if reached < POWER:
        return _out_of_reach(ids, reached, relevant)
    low, high = (power_with(more, times) for times in _spread_range(df))
    found = f"a true difference of {relevant:g} with {_percent(reached)} probability"
    found += f" ({_percent(low)} to {_percent(high)}, by how well the spread is known)"
    if more == 0:
        text = f"These {count(n, 'confirm seed')} would show {found} already; more seeds would find smaller ones."
    else:
        verb = "finds" if more == 1 else "find"
        text = f"{count(more, 'more confirm seed')} {verb} {found}: {_estimate(variance, df)}. Train them on all "
        text += f"confirmed configs: sweeps extend {ask.sweep_id} --confirm-seeds {more}"
    return Purchase(
        text=text, config_ids=ids, more_seeds=more, difference=relevant, power=reached, power_range=[low, high]
    )


def _runs_without_collapse(comparison: Comparison, tolerated: float, sweep: Sweep) -> Purchase:
    """Say how many more runs would show that a config, or its comparator, collapses seldom enough."""
    ahead = comparison.difference > 0
    runs, who = (comparison.own, comparison.label) if ahead else (comparison.other, comparison.comparator_label)
    needed = runs_to_exclude(tolerated, runs.bad)
    more = MOST_RUNS if needed is None else needed - runs.runs
    text = (
        f"Open is how often {who} collapses or fails: it is ahead on average where that is in fewer than "
        f"{percent(tolerated)} of its runs, and {runs.bad} of {runs.runs} did. "
    )
    if needed is None:
        text += f"Not even {more} more runs could exclude a higher rate: look for a larger difference."
    else:
        text += f"If no other run did, {count(more, 'more confirm seed')} would exclude a higher rate: "
        text += f"sweeps extend {sweep.id} --confirm-seeds {more}"
    relevant = sweep.spec.objective.relevant
    ids = [comparison.config_id, comparison.comparator_id]
    return Purchase(text=text, config_ids=ids, more_seeds=more, difference=relevant, power=None)


def _too_few_problems(comparison: Comparison, ask: _Ask) -> str:
    """Say so where EQUIVALENT takes more validation problems, whatever the number of seeds; else the text is empty."""
    if not comparison.problem_error or comparison.num_problems is None:
        return ""
    parts = ErrorParts(0.0, comparison.df or 1, comparison.problem_error, comparison.problem_df or 1)
    width = parts.lower_width(comparison.family, confidence=ask.confidence)
    if width <= ask.relevant:
        return ""
    needed = math.ceil(comparison.num_problems * (width / ask.relevant) ** 2)
    return (
        f" No number of seeds can show EQUIVALENT within {ask.relevant:g} on these "
        f"{count(comparison.num_problems, 'validation problem')}: by the spread of the problems so far, that takes "
        f"about {needed}."
    )


def _spread_range(df: int) -> tuple[float, float]:
    """Return by which factors the true variance may be larger and smaller than its estimate, with 80 % confidence."""
    return df / float(stats.chi2.ppf(0.1, df)), df / float(stats.chi2.ppf(0.9, df))


def _confirm_stage(rows: Mapping[str, ConfigRow], sweep_id: str, relevant: float) -> Purchase | None:
    """Propose a confirm stage for a sweep that has none."""
    tuned = sorted((row for row in rows.values() if row.tune), key=lambda row: (-_tune(row).mean, row.number))
    leading = [row for row in tuned if Role.SPACE in row.roles and Role.BASELINE not in row.roles][:_TOP_K]
    if not leading:
        return None
    baselines = [row for row in tuned if row not in leading and {Role.BASELINE, Role.DAPO} & set(row.roles)]
    ids = [row.id for row in (*leading, *baselines)]
    spread = _tune_spread([*leading, *baselines])
    ask = f"Confirm the best {_TOP_K} on {{0}} fresh seeds (sweeps extend {sweep_id} --confirm-seeds {{0}})"
    if spread is None:
        few = "a single tune seed" if max(_tune(row).n for row in tuned) == 1 else "results so few or so equal"
        text = f"{ask.format(_FIRST_SEEDS)}. How small a difference that finds cannot be estimated from {few}."
        return Purchase(text=text, config_ids=ids, more_seeds=_FIRST_SEEDS, difference=relevant, power=None)
    variance, df = spread
    family, others = len(leading), max(1, len(ids) - 1)

    def power_with(seeds: int) -> float:
        return _power(ErrorParts(_of_seeds(variance, seeds), others * (seeds - 1)), family, relevant)

    seeds, reached = _fewest(power_with, MIN_SEEDS)
    if reached < POWER:
        return _out_of_reach(ids, reached, relevant)
    text = (
        f"{ask.format(seeds)}: it finds a true difference of {relevant:g} with {_percent(reached)} probability, "
        f"{_estimate(variance, df)} on the tune seeds."
    )
    return Purchase(text=text, config_ids=ids, more_seeds=seeds, difference=relevant, power=reached)


def _out_of_reach(ids: list[str], reached: float, relevant: float) -> Purchase:
    text = (
        f"Even {MOST_RUNS} more seeds would find a true difference of {relevant:g} with only {_percent(reached)} "
        "probability, by the spread so far: evaluate on more problems, or look for a larger difference."
    )
    return Purchase(text=text, config_ids=ids, more_seeds=MOST_RUNS, difference=relevant, power=reached)


def _power(parts: ErrorParts, family: int, relevant: float, confidence: float = CONFIDENCE) -> float:
    """Return the probability that a true difference of `relevant` will be found."""
    width = parts.lower_width(family, confidence=confidence)
    return power(width / parts.total, parts.df, relevant / parts.total)


def _of_seeds(variance: float, seeds: int) -> float:
    """Return the standard error of a difference that this number of seeds leaves."""
    return math.sqrt(2 * variance / seeds)


def _fewest(power_with: Callable[[int], float], least: int) -> tuple[int, float]:
    """Return the smallest number of seeds from `least` on that reaches `POWER`, or `MOST_RUNS`, and their power."""
    seeds = least + bisect_left(range(least, MOST_RUNS), POWER, key=power_with)
    return seeds, power_with(seeds)


def _spread_of_pair(comparison: Comparison) -> tuple[float, int] | None:
    """Return the variance over seeds that the comparison rests on, with its degrees of freedom."""
    if comparison.seed_error is None or comparison.df is None:
        return None
    return comparison.seed_error**2 * comparison.num_seeds / 2, comparison.df


def _tune_spread(rows: Sequence[ConfigRow]) -> tuple[float, int] | None:
    """Return the error's variance on the tune seeds, with its degrees of freedom."""
    return Pairs([Arm(row.id, row.tune.by_seed) for row in rows if row.tune]).spread()


def _estimate(variance: float, df: int) -> str:
    kind = "an estimate" if df >= _SURE_DF else "a rough estimate"
    return f"{kind}, from an error sd of {number(math.sqrt(variance))}"


def _percent(probability: float) -> str:
    return "over 99 %" if probability > 0.99 else f"{probability:.0%}".replace("%", " %")


def _tune(row: ConfigRow) -> StageResult:
    assert row.tune is not None
    return row.tune
