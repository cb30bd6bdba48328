"""Warnings about the comparison of the best config with its comparator: room, budgets, seeds, noise and power."""

import math
from collections.abc import Mapping
from statistics import fmean, median
from typing import Final

from sweep_service.report.findings.rule import Evidence, Rule
from sweep_service.report.findings.sweep_rules import ended_in
from sweep_service.report.formatting import count, number, signed
from sweep_service.report.model import Comparison, Outcome, StageResult, TrialRow
from sweep_service.report.statistics.critical_values import POWER
from sweep_service.report.statistics.differences import MIN_SEEDS
from sweep_service.report.sweep_facts import Facts
from sweep_service.sweep.records import Stage, TrialState

APART: Final = 6.0
"""Number of median absolute deviations (scaled to a normal's sd) from which a seed stands apart. With 3 to 6 pairs of
normal noise at most 4 % of the sweeps have such a seed; at 3 deviations every fifth would."""
UNEQUAL: Final = 0.2
"""Share by which two budgets may differ without a warning."""
_MAD_TO_SD: Final = 1.4826
_MARGIN: Final = 0.02
"""Share of right answers, or of wrong ones, below which configs have no room to differ."""


def _means(facts: Facts) -> list[float]:
    """Return the configs' means, if they are shares of right answers and any trial was trained to its end."""
    stages = (row.confirm or row.tune for row in facts.rows.values())
    means = [stage.mean for stage in stages if stage and stage.n]
    trained = any(trial.state is TrialState.SUCCEEDED for trial in facts.trials)
    return means if trained and facts.inputs.sweep.spec.objective.metric != "eval/reward_mean" else []


def _at_floor(facts: Facts) -> Evidence | None:
    means = _means(facts)
    if not means or round(max(means), 3) >= _MARGIN:  # as it is written
        return None
    remedy = "the problems may be too hard, or the reward may not find the answers"
    return Evidence(f"The highest mean of a config is {number(max(means))}; {remedy}.")


def _at_ceiling(facts: Facts) -> Evidence | None:
    means = _means(facts)
    if not means or round(min(means), 3) <= 1 - _MARGIN:
        return None
    return Evidence(f"The lowest mean of a config is {number(min(means))}; take harder problems to tell configs apart.")


def _unequal_budget(facts: Facts) -> Evidence | None:
    """Compare the budgets of the best config and its comparator."""
    comparison = facts.verdict.comparison
    other = facts.rows[comparison.comparator_id] if comparison else facts.baseline
    if facts.best is None or other is None:
        return None
    stage = Stage.CONFIRM if comparison else Stage.TUNE
    of_best, of_other = (
        [t for t in facts.trials_of(id_) if t.stage is stage and t.state.evaluations_count]
        for id_ in (facts.best.id, other.id)
    )
    if not of_best or not of_other:
        return None
    label, texts = other.label, list[str]()
    steps, their_steps = (fmean(trial.step for trial in trials) for trials in (of_best, of_other))
    if steps != their_steps:
        texts.append(f"{facts.best.label} was trained for {steps:.0f} steps and {label} for {their_steps:.0f}")
    used, their_used = (
        fmean([t.tokens for t in trials if t.tokens is not None] or [0.0]) for trials in (of_best, of_other)
    )
    if used and their_used and max(used, their_used) > (1 + UNEQUAL) * min(used, their_used):
        texts.append(
            f"{facts.best.label} trained on {used:,.0f} completion tokens a trial and {label} on {their_used:,.0f}"
        )
    return Evidence("; ".join(texts) + ".") if texts else None


def _seed_disagreement(facts: Facts) -> Evidence | None:
    """Find seeds that disagree on who is ahead, or of one whose difference stands apart from the others'."""
    comparison = facts.verdict.comparison
    if comparison is None:
        return None
    deltas = _deltas(facts, comparison)
    texts: list[str] = []
    against = {seed: delta for seed, delta in deltas.items() if delta * comparison.difference < 0}
    if against and comparison.outcome.sign:
        figures = ", ".join(f"seed {seed}: {signed(delta)}" for seed, delta in against.items())
        texts.append(f"{len(against)} of {count(len(deltas), 'pair')} of seeds point the other way ({figures})")
    apart = _far_off(deltas, _typical_spread(facts, comparison), facts.inputs.sweep.spec.objective.relevant)
    if apart:
        figures = ", ".join(f"seed {seed}: {signed(deltas[seed])}" for seed in apart)
        texts.append(f"the median difference over seeds is {signed(median([*deltas.values()]))}, but {figures}")
    if not texts:
        return None
    seeds = {*apart, *(against if comparison.outcome.sign else ())}
    trials = [
        t.id for t in facts.trials if t.config_id in comparison.pair and t.stage is Stage.CONFIRM and t.seed in seeds
    ]
    text = "; ".join(texts)
    return Evidence(f"{text[:1].upper()}{text[1:]}.", trials)


def _deltas(facts: Facts, comparison: Comparison) -> dict[int, float]:
    """Return config minus comparator by confirm seed."""
    one, other = (facts.rows[id_].confirm for id_ in comparison.pair)
    return one.minus(other) if one and other else {}


def _typical_spread(facts: Facts, comparison: Comparison) -> float:
    """Return the scaled median absolute deviation of each config's differences from the comparator of its kind."""
    away: list[float] = []
    for other in facts.comparisons:
        if other.comparator_role is comparison.comparator_role:
            deltas = [*_deltas(facts, other).values()]
            away += [abs(delta - median(deltas)) for delta in deltas]
    return _MAD_TO_SD * median(away) if away else 0.0


def _far_off(deltas: Mapping[int, float], typical: float, relevant: float) -> list[int]:
    """Return the seeds that stand apart from the others; the others' spread counts as at least the typical one."""
    if len(deltas) <= MIN_SEEDS:
        return []
    outliers: list[int] = []
    for seed, delta in deltas.items():
        others = [other for key, other in deltas.items() if key != seed]
        middle = median(others)
        spread = max(typical, _MAD_TO_SD * median([abs(other - middle) for other in others]))
        if abs(delta - middle) > max(APART * spread, relevant):
            outliers.append(seed)
    return outliers


def _evaluation_noise(facts: Facts) -> Evidence | None:
    """Find a difference that sampling completions at evaluations alone could have made."""
    comparison = facts.verdict.comparison
    if comparison is None or comparison.standard_error is None:
        return None
    trials = {trial.id: trial for trial in facts.trials}
    error, other_error = (_mean_error(facts.rows[id_].confirm, trials) for id_ in comparison.pair)
    if error is None or other_error is None:
        return None
    noise = math.hypot(error, other_error)
    if noise <= abs(comparison.difference) or noise < comparison.standard_error / 2:
        return None
    return Evidence(
        f"Sampling completions at evaluations alone gives the difference of {signed(comparison.difference)} a standard "
        f"error of {number(noise)}; the whole one, estimated over seeds, is {number(comparison.standard_error)}. Raise "
        "evaluation.samples_per_problem, or objective.last."
    )


def _mean_error(stage: StageResult | None, trials: Mapping[str, TrialRow]) -> float | None:
    """Return the standard error of the mean over seeds that comes from evaluations alone."""
    errors = [trials[seed.trial_id].evaluation_se for seed in stage.seeds] if stage else []
    squares = [error**2 for error in errors if error is not None]
    return math.sqrt(sum(squares)) / len(squares) if squares and len(squares) == len(errors) else None


def _underpowered(facts: Facts) -> Evidence | None:
    """Find an undecided comparison with too few seeds to show what matters, a difference of `relevant`."""
    verdict, comparison, relevant = facts.verdict, facts.verdict.comparison, facts.inputs.sweep.spec.objective.relevant
    if verdict.outcome is not Outcome.UNDECIDED or comparison is None or comparison.detectable is None:
        return None
    if comparison.detectable <= relevant:
        return None
    text = (
        f"{count(comparison.num_seeds, 'confirm seed')} find a true difference of "
        f"{number(comparison.detectable)} with 80 % probability, smaller ones more rarely."
    )
    more = verdict.next
    if more is not None and (more.power or 0) >= POWER:
        text += f" For {relevant:g} it would take about {comparison.num_seeds + more.more_seeds} seeds."
    rule = f"UNDECIDED, and a true difference of {relevant:g} would be found with less than 80 % probability."
    return Evidence(text, condition=rule)


COMPARISON_RULES: Final = (
    Rule("AT_FLOOR", f"No config has a mean of {_MARGIN:g} or more.", _at_floor),
    Rule("AT_CEILING", f"Every config has a mean above {1 - _MARGIN:g}.", _at_ceiling),
    Rule(
        "UNEQUAL_BUDGET",
        "Best config and comparator stopped at different steps, or their completion tokens differ by more than 20 %.",
        _unequal_budget,
    ),
    Rule(
        "SEED_DISAGREEMENT",
        "A config is ahead or behind while single seeds point the other way; or a seed whose paired difference is more "
        "than 6 median absolute deviations away from the others'.",
        _seed_disagreement,
    ),
    Rule(
        "EVAL_NOISE",
        "The standard error that evaluations give the difference is larger than the difference, and at least half of "
        "its whole standard error.",
        _evaluation_noise,
    ),
    Rule(
        "UNDERPOWERED",
        "UNDECIDED, and a true difference of objective.relevant would be found with less than 80 % probability.",
        _underpowered,
    ),
    Rule(
        "DIVERGED_TRIALS",
        "Trials whose loss or gradient became non-finite, or that were ended as ruined.",
        ended_in(
            TrialState.DIVERGED,
            lambda facts, diverged: (
                f"diverged and count{'s' * (diverged == 1)} as {facts.inputs.sweep.spec.objective.diverged:g}"
            ),
        ),
    ),
)
