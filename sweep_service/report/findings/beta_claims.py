"""Claims of the CE-GPPO paper about what beta1 and beta2 do to entropy, held against this sweep.

A claim is about the straight line through the values of the beta that were trained, at every value of the other beta
at which configs differ in this one. It holds, or fails, only if each of these values shows the sign; if two show
opposite signs, it does neither. No average can stand for a value.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sweep_service.report.findings.beta_effects import (
    BetaEffect,
    BetaRun,
    beta_effect,
    beta_runs,
    side,
)
from sweep_service.report.findings.rule import Evidence, Rule, figures_of
from sweep_service.report.formatting import count, estimate
from sweep_service.report.model import Holds
from sweep_service.report.statistics.differences import EQUAL, MIN_SEEDS, Interval
from sweep_service.report.sweep_facts import Facts
from sweep_service.sweep.beta_design import smallest_design, varied_betas
from sweep_service.sweep.records import Stage


@dataclass(frozen=True)
class _BetaQuestion:
    """One claim of the paper, and its words."""

    beta: str
    name: str
    other: str
    """Name of the other beta."""
    sign: int
    """Sign of the effect if the claim holds."""

    def look(self, facts: Facts) -> Evidence | None:
        """Return the sweep's evidence on the claim; None where no beta varies."""
        runs = beta_runs(facts, self.beta)
        everything, steady = beta_effect(runs), beta_effect([run for run in runs if run.steady])
        if everything is None:
            return _no_pairs(facts, self) if runs else None
        used = steady or everything
        outcome = Holds.UNDECIDED if steady is None else _outcome(steady, self.sign)
        evidence = [_values_text(used, self), _average_text(used, self), _no_interval(facts, used.average)]
        evidence.append(_left_out(used, runs, everything if steady else None))
        text = " ".join(sentence for sentence in evidence if sentence)
        if outcome is Holds.DEPENDS:  # an average would hide what was found
            return Evidence(text, outcome=outcome, figures={"num_pairs": used.average.n})
        return Evidence(text, outcome=outcome, figures=figures_of(used.average))


def _no_pairs(facts: Facts, question: _BetaQuestion) -> Evidence | None:
    """Say of a sweep over a beta that no two of its trials can be compared."""
    betas = varied_betas(facts.inputs.sweep.spec)
    if question.beta not in betas:
        return None
    return Evidence(
        f"No two configs that trained on one seed differ in {question.name} alone, so that nothing can be compared "
        f"with all else equal. The smallest design that can: {smallest_design(betas)}."
    )


def _outcome(effect: BetaEffect, sign: int) -> Holds:
    if _opposed(effect):
        return Holds.DEPENDS
    return Holds.HOLDS if effect.sides == {sign} else Holds.FAILS if effect.sides == {-sign} else Holds.UNDECIDED


def _opposed(effect: BetaEffect) -> bool:
    """Return True if two values of the other beta show opposite signs."""
    return {-1, 1} <= effect.sides


def _change(effect: Interval) -> str:
    return estimate(effect.mean, effect.low, effect.high, sign=True)


def _subject(question: _BetaQuestion) -> str:
    return f"With {question.name} higher by 1, all else equal, the slope of log entropy over training changes"


def _values_text(effect: BetaEffect, question: _BetaQuestion) -> str:
    """Describe the effect at every value of the other beta, and the difference of the ends; empty with one value."""
    if len(effect.values) == 1:
        return ""
    changes = [
        f"by {_change(value.effect) if value.effect else 'what no seed shows'} at {question.other} = {value.other:g}"
        for value in effect.values
    ]
    known = any(value.effect and value.effect.low is not None for value in effect.values)
    bounds = f"{_percent(effect)} each" if known else "no intervals"
    text = f"{_subject(question)} {', '.join(changes[:-1])} and {changes[-1]} ({bounds}; below 0: it falls faster)."
    both = "an interaction of β1 and β2"
    if _opposed(effect):
        contrast = (
            f"So the sign of what {question.name} does depends on {question.other}, and no average stands for it."
        )
    elif effect.interaction is None:
        contrast = f"No seed has the first and the last, so {both} cannot be excluded."
    else:
        shown = "is shown" if side(effect.interaction) else "cannot be excluded"
        contrast = f"The last minus the first is {_change(effect.interaction)}: {both} {shown}."
    return f"{text} {contrast}"


def _average_text(effect: BetaEffect, question: _BetaQuestion) -> str:
    configs = count(effect.num_configs, "config")
    if effect.stage is Stage.CONFIRM:
        configs = f"{effect.num_configs} of the confirmed configs"
    one_stage = f"{count(effect.average.n, f'{effect.stage} seed')}, {configs}"
    if len(effect.values) == 1:
        bounds = f"{_percent(effect)}; " if effect.average.low is not None else ""
        return (
            f"{_subject(question)} by {_change(effect.average)} ({bounds}below 0: it falls faster), {one_stage}; "
            f"{question.other} = {effect.values[0].other:g} in all of them."
        )
    if _opposed(effect):
        return f"This is from {one_stage}."
    text = f"On average over the values of {question.other} it changes by {_change(effect.average)}, {one_stage}."
    sign = side(effect.average)
    silent = [f"{value.other:g}" for value in effect.values if value.side != sign]
    if sign and silent:
        text += f" That {question.name} has this sign at {question.other} = {', '.join(silent)} is not shown, "
        text += "so nothing is decided."
    return text


def _percent(effect: BetaEffect) -> str:
    return f"{100 * effect.confidence:.3g} %"


def _no_interval(facts: Facts, average: Interval) -> str:
    if average.low is not None:
        return ""
    if average.n >= MIN_SEEDS:
        return f"There is no interval: {EQUAL}."
    betas = varied_betas(facts.inputs.sweep.spec)
    design = f" The smallest design that can: {smallest_design(betas)}." if betas else ""
    return f"There is no interval: it takes {MIN_SEEDS} seeds of one stage.{design}"


def _left_out(effect: BetaEffect, runs: Sequence[BetaRun], everything: BetaEffect | None) -> str:
    """Name the trials left out; `everything` is with collapsed ones, and None if no effect remains without them."""
    sentences: list[str] = []
    if effect.partial:
        sentences.append(f"Left out: {count(effect.partial, 'seed')} on which too many trials are missing.")
    collapsed = sum(not run.steady for run in runs)
    if everything is None:
        sentences.append(
            f"It rests on {count(collapsed, 'trial')} of {len(runs)} whose reward collapsed, in which entropy follows "
            "the collapse, so nothing is decided."
        )
    elif collapsed:
        with_them = ""
        if everything.average != effect.average:
            with_them = f"; with them, on average, {_change(everything.average)} ({everything.stage} seeds)"
        sentences.append(
            f"Left out: {count(collapsed, 'trial')} of {len(runs)} whose reward collapsed, in which entropy follows "
            f"the collapse{with_them}."
        )
    return " ".join(sentences)


BETA_CLAIMS: Final = (
    Rule(
        "BETA1_ENTROPY_FALLS_FASTER",
        "beta1 up: entropy falls faster (Fig. 3)",
        _BetaQuestion("beta1", "β1", "β2", sign=-1).look,
    ),
    Rule(
        "BETA2_SLOWER",
        "beta2 up: entropy falls more slowly (Fig. 3)",
        _BetaQuestion("beta2", "β2", "β1", sign=1).look,
    ),
)
