"""Proposal of what to train next: the seeds that find a relevant difference, by the spread seen so far."""

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import Final, NamedTuple

from sweep_service.report.facts.report_tables import ReportTables
from sweep_service.report.formatting import count
from sweep_service.report.model import Comparison, ConfigRow, Outcome, Purchase, RunCounts, StageResult, Verdict
from sweep_service.report.statistics.critical_values import CONFIDENCE, POWER, confidence_of, power
from sweep_service.report.statistics.differences import EQUAL, MIN_SEEDS, Arm, Pairs
from sweep_service.report.statistics.further_seeds import ResultsSoFar
from sweep_service.report.statistics.ruin_rates import MOST_RUNS, runs_to_exclude
from sweep_service.report.statistics.seeds_and_problems import ErrorParts, ProblemVariance
from sweep_service.report.verdict.ruin import at_most
from sweep_service.sweep.objective import how_to_count
from sweep_service.sweep.records import Role

_TOP_K: Final = 2
"""Number of configs in the confirm stage that is proposed to a sweep without one."""
_FIRST_SEEDS: Final = 6
"""Number of seeds proposed where nothing is known about the spread."""
_MOSTLY: Final = 0.5
"""Share of ruined runs above which more of the same are no advice."""
_WORTH_IT: Final = 100
"""Most seeds that are worth a command, where sound runs have given an answer already."""
_SELDOM: Final = 0.01
"""Probability below which none is named."""
_NEARLY: Final = 0.9
"""Share of what very many seeds reach that is worth training for."""
_MOST_TIMES: Final = 1000
"""Most problems, in units of those that there are, that are worth counting."""
_ALIKE: Final = (
    "That assumes runs like those so far: if one is ruined, or some end lower than any yet, the chance is smaller."
)


def next_purchase(verdict: Verdict, tables: ReportTables) -> Purchase | None:
    """Say what to train next, ending in the command where there is one; None if the question is decided."""
    purchase, comparison = _purchase(verdict, tables), verdict.comparison
    if purchase is None or comparison is None or not purchase.more_seeds:
        return purchase
    text, sweep_id = purchase.text, tables.inputs.sweep.id
    if comparison.batch:
        text += f" They count only if they train {comparison.batch}, too."
    confirmed = [row for row in tables.rows.values() if row.confirm]
    runs = count(purchase.more_seeds * len(confirmed), "run")
    text += f" For all {count(len(confirmed), 'confirmed config')}, {runs}: "
    text += f"sweeps extend {sweep_id} --confirm-seeds {purchase.more_seeds}"
    return purchase.model_copy(update={"text": text})


def _purchase(verdict: Verdict, tables: ReportTables) -> Purchase | None:
    sweep = tables.inputs.sweep
    ask = _Ask(sweep.id, sweep.spec.objective.relevant, confidence_of(tables.inputs.looks + 1))
    if verdict.outcome is Outcome.EXPLORATORY:
        return _confirm_stage(tables, ask._replace(confidence=CONFIDENCE))
    comparison = verdict.comparison
    if comparison is None or verdict.outcome in (Outcome.BETTER, Outcome.WORSE, Outcome.EQUIVALENT):
        return None
    if verdict.outcome.is_of_these_problems:
        text = f"More seeds would say nothing about other problems; {how_to_count(sweep.spec)}."
        return Purchase(text=text, config_ids=[*comparison.pair], more_seeds=0, difference=ask.relevant, power=None)
    if comparison.tolerated is not None:
        return _sound_runs(comparison, comparison.tolerated, ask)
    purchase = _more_seeds(comparison, tables, ask)
    return purchase.model_copy(update={"text": purchase.text + _too_few_problems(comparison, ask)})


class _Ask(NamedTuple):
    """The question that more confirm seeds of a sweep are to answer."""

    sweep_id: str
    relevant: float
    """The smallest difference that matters."""
    confidence: float
    """Confidence of the interval at the next look."""


def _more_seeds(comparison: Comparison, tables: ReportTables, ask: _Ask) -> Purchase:
    """Propose more confirm seeds for the best config and its comparator."""
    relevant = ask.relevant
    ids, n = [*comparison.pair], comparison.num_seeds
    least = max(0, MIN_SEEDS - n)
    if not least and comparison.standard_error is None:
        text = f"{count(n, 'confirm seed')}: {EQUAL}, nor of what more seeds would show. First make results differ."
        return Purchase(text=text, config_ids=ids, more_seeds=0, difference=relevant, power=None)
    if comparison.with_ruined:
        return _sound_pairs(comparison, tables, ask)
    seen = _seen(comparison, tables)
    if seen is None:
        needed = count(least, "more confirm seed")
        text = f"An interval takes {needed} on these two configs; how wide it will be cannot be estimated yet."
        return Purchase(text=text, config_ids=ids, more_seeds=least, difference=relevant, power=None)
    if comparison.detectable is not None and comparison.detectable <= relevant:
        return _enough_seeds(comparison, relevant)
    more, reached = _fewest(seen, max(1, least), ask)
    if reached < POWER:
        return _out_of_reach(ids, seen, ask, reached)
    low, high = seen.chance_range(more, relevant, ask.confidence)
    text = (
        f"{count(more, 'more confirm seed')} would show a true difference of {relevant:g} in sound runs with "
        f"{_percent(reached)} probability{_range(low, high)}. {_ALIKE}"
    )
    return Purchase(
        text=text, config_ids=ids, more_seeds=more, difference=relevant, power=reached, power_range=[low, high]
    )


def _sound_pairs(comparison: Comparison, tables: ReportTables, ask: _Ask) -> Purchase:
    """Propose the seeds that would give an interval without ruined runs, whose spread says nothing about others."""
    pairs, both = Pairs(tables.sound_arms), comparison.pair
    more = max(1, MIN_SEEDS - (int(pairs.seeds(*both).sum()) if pairs.has(*both) else 0))
    if max(comparison.own.seen, comparison.other.seen) > _MOSTLY:
        text = "Most runs of one of the two were ruined, so more seeds would say little: first find out why."
        return Purchase(text=text, config_ids=[*both], more_seeds=0, difference=ask.relevant, power=None)
    text = (
        f"The interval counts ruined runs, for want of {MIN_SEEDS} seeds without them. If no other run is ruined, "
        f"{count(more, 'more confirm seed')} would show the difference without them."
    )
    return Purchase(text=text, config_ids=[*comparison.pair], more_seeds=more, difference=ask.relevant, power=None)


def _seen(comparison: Comparison, tables: ReportTables) -> ResultsSoFar | None:
    """Return the results so far on the difference; None if nothing is known about the spread over seeds."""
    if comparison.seed_error is not None and comparison.df is not None:  # the comparison itself rests on it
        of_pair = comparison.seed_error**2 * comparison.num_seeds / 2, comparison.df
    else:
        of_pair = Pairs(tables.sound_arms).spread()
    before = [arm for arm in tables.tuned_arms if arm.config_id in comparison.pair]
    spread = of_pair or Pairs(before).spread()
    if spread is None:
        return None
    seen = ResultsSoFar(
        *spread,
        family=comparison.family,
        seeds=comparison.num_seeds,
        difference=comparison.difference,
        known_df=spread[1] if of_pair else 0,
    )
    counted = comparison.seed_error is None or comparison.problem_error is not None
    confirmed = [arm for arm in tables.sound_arms if arm.config_id in comparison.pair]
    return _with_problems(seen, confirmed, before) if counted else seen


def _with_problems(seen: ResultsSoFar, *stages: Sequence[Arm]) -> ResultsSoFar:
    """Add the part of other problems: the largest of the estimates from every two of a stage's configs.

    A promise is made where an estimate is small, which it may be by chance. The tune stage has other seeds, and mostly
    other problems, than the confirm stage, so that its estimate is seldom too small as well.
    """
    parts = list[ProblemVariance]()
    for arms in stages:
        pairs, ids = Pairs(arms), [arm.config_id for arm in arms]
        parts += [part for two in combinations(ids, 2) if (part := pairs.problems(*two)) is not None]
    if not parts:
        return seen
    largest = max(parts, key=lambda part: part.variance)
    return replace(seen, problem_error=math.sqrt(largest.variance), problem_df=largest.df, problem_noise=largest.noise)


def _enough_seeds(comparison: Comparison, relevant: float) -> Purchase:
    """Say that a relevant difference would have been found."""
    assert comparison.standard_error is not None
    assert comparison.low is not None
    assert comparison.df is not None
    error = comparison.standard_error
    parts = ErrorParts(
        comparison.seed_error or 0.0, comparison.df, comparison.problem_error or 0.0, comparison.problem_df or 1
    )
    reached = power((comparison.difference - comparison.low) / error, parts.df, relevant / error)
    text = (
        f"These {count(comparison.num_seeds, 'confirm seed')} would have shown a true difference of {relevant:g} with "
        f"{_percent(reached)} probability; more seeds would find smaller ones."
    )
    return Purchase(text=text, config_ids=[*comparison.pair], more_seeds=0, difference=relevant, power=reached)


def _sound_runs(comparison: Comparison, tolerated: float, ask: _Ask) -> Purchase:
    """Count the further runs that would decide the averages, were none of them ruined."""
    own, other = comparison.own, comparison.other
    if comparison.outcome is Outcome.ALIKE:
        both, who = [own, other], "each"
    else:
        both, who = ([own], comparison.label) if comparison.difference > 0 else ([other], comparison.comparator_label)
    runs = max(both, key=lambda one: one.bound)
    error = (1 - ask.confidence) / comparison.compared
    needed = [_more_runs(one, own.missing + other.missing - one.missing, tolerated, error) for one in both]
    more = None if None in needed else max(1, *(one for one in needed if one is not None))
    worth_it = more is not None and more <= _WORTH_IT and runs.seen < tolerated
    text = f"What sound runs show holds over all runs, too, if {at_most(tolerated)} of the runs of {who} are ruined."
    if runs.seen >= tolerated:
        text += f" So far {runs.bad} of {runs.runs} were: first find out why."
    elif more is None:
        text += f" Not even {MOST_RUNS} sound runs would show that."
    else:
        text += f" {count(more, 'more confirm seed')} would show that, if all their runs are sound"
        text += "." if worth_it else ": seldom worth it."
    seeds = more if worth_it and more else 0
    return Purchase(text=text, config_ids=[*comparison.pair], more_seeds=seeds, difference=ask.relevant, power=None)


def _more_runs(runs: RunCounts, missing_beside: int, tolerated: float, error: float) -> int | None:
    """Return how many more sound runs exclude a rate of ruin; None if too many.

    Runs that are missing beyond the other config's count as ruined, as they do in the averages.
    """
    ruined = max(0, runs.missing - missing_beside)
    needed = runs_to_exclude(tolerated, runs.bad + ruined, error)
    return None if needed is None else needed - runs.runs - ruined


def _too_few_problems(comparison: Comparison, ask: _Ask) -> str:
    """Say so where showing two alike takes more validation problems, whatever the number of seeds; else empty."""
    if not comparison.problem_error or comparison.num_problems is None:
        return ""
    parts = ErrorParts(0.0, comparison.df or 1, comparison.problem_error, comparison.problem_df or 1)
    width = parts.lower_width(comparison.family, confidence=ask.confidence)
    if width <= ask.relevant:
        return ""
    needed = _problems_needed(comparison, ask)
    return (
        f" No number of seeds can show that the two are alike within {ask.relevant:g} on these "
        f"{count(comparison.num_problems, 'validation problem')}: by the spread of the problems so far, that takes "
        f"{needed}."
    )


def _problems_needed(comparison: Comparison, ask: _Ask) -> str:
    """Return how many problems, in groups as large as those so far, show that two are alike."""
    present, df, error = comparison.num_problems or 1, comparison.problem_df or 1, comparison.problem_error or 0.0

    def is_enough(problems: int) -> bool:
        times = problems / present
        parts = ErrorParts(0.0, comparison.df or 1, error / math.sqrt(times), max(1, int(df * times)))
        return parts.lower_width(comparison.family, confidence=ask.confidence) <= ask.relevant

    most = _MOST_TIMES * present
    needed = bisect_left(range(most), True, lo=present, key=is_enough)
    return f"about {needed}" if needed < most else f"more than {most}"


def _confirm_stage(tables: ReportTables, ask: _Ask) -> Purchase | None:
    """Propose a confirm stage for a sweep that has none."""
    tuned = sorted((row for row in tables.rows.values() if row.tune), key=lambda row: (-_tune(row).mean, row.number))
    leading = [row for row in tuned if Role.SPACE in row.roles and Role.BASELINE not in row.roles][:_TOP_K]
    if not leading:
        return None
    baselines = [row for row in tuned if row not in leading and {Role.BASELINE, Role.DAPO} & set(row.roles)]
    ids = [row.id for row in (*leading, *baselines)]
    compared = [arm for arm in tables.tuned_arms if arm.config_id in ids]
    spread = Pairs(compared).spread()
    best = "config" if len(leading) == 1 else str(len(leading))
    proposal = f"Confirm the best {best} on {{0}} fresh seeds (sweeps extend {ask.sweep_id} --confirm-seeds {{0}})"
    if spread is None:
        few = "a single tune seed" if max(_tune(row).n for row in tuned) == 1 else "results so few or so equal"
        text = f"{proposal.format(_FIRST_SEEDS)}. How small a difference that finds cannot be estimated from {few}."
        return Purchase(text=text, config_ids=ids, more_seeds=_FIRST_SEEDS, difference=ask.relevant, power=None)
    seen = ResultsSoFar(*spread, family=len(leading), df_per_seed=max(1, len(ids) - 1))
    seen = _with_problems(seen, compared)
    seeds, reached = _fewest(seen, MIN_SEEDS, ask)
    if reached < POWER:
        return _out_of_reach(ids, seen, ask, reached)
    low, high = seen.chance_range(seeds, ask.relevant, ask.confidence)
    text = (
        f"{proposal.format(seeds)}: that would show a true difference of {ask.relevant:g} in sound runs "
        f"with {_percent(reached)} probability{_range(low, high)}. {_ALIKE}"
    )
    return Purchase(
        text=text, config_ids=ids, more_seeds=seeds, difference=ask.relevant, power=reached, power_range=[low, high]
    )


def _out_of_reach(ids: list[str], seen: ResultsSoFar, ask: _Ask, reached: float) -> Purchase:
    """Say that no number of seeds would do, and after how many more hardly help."""
    most, near = _fewest(seen, MIN_SEEDS, ask, _NEARLY * reached)
    chance = f"with only {_percent(reached)} probability, and {most} with {_percent(near)}"
    text = (
        f"Even {MOST_RUNS} more seeds would find a true difference of {ask.relevant:g} "
        f"{chance if reached >= _SELDOM else 'hardly ever'}, by the spread so far: evaluate on more problems, or look "
        "for a larger difference."
    )
    return Purchase(text=text, config_ids=ids, more_seeds=0, difference=ask.relevant, power=reached)


def _fewest(seen: ResultsSoFar, least: int, ask: _Ask, wanted: float = POWER) -> tuple[int, float]:
    """Return the smallest number of seeds from `least` on that reaches a power, or `MOST_RUNS`, and their power."""

    def chance(more: int) -> float:
        return seen.chance(more, ask.relevant, ask.confidence)

    seeds = least + bisect_left(range(least, MOST_RUNS), wanted, key=chance)
    return seeds, chance(seeds)


def _range(low: float, high: float) -> str:
    """Write the probability for the largest and the smallest spread that the results leave likely, if they differ."""
    least, most = map(_percent, (low, high))
    return "" if least == most else f" ({least} to {most}, since the spread is known only roughly)"


def _percent(probability: float) -> str:
    return "over 99 %" if probability > 0.99 else f"{probability:.0%}".replace("%", " %")


def _tune(row: ConfigRow) -> StageResult:
    assert row.tune is not None
    return row.tune
