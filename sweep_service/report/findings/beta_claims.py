"""Claims of the CE-GPPO paper about what beta1 and beta2 do to entropy, held against this sweep.

Where both betas vary, their interaction comes before any average: a claim holds, or fails, only if both ends of the
other beta show the same sign, and neither if they show opposite ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sweep_service.report.findings.beta_effects import (
    END_CONFIDENCE,
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
        evidence = [_ends_text(used, self), _average_text(used, self), _no_interval(facts, used.average)]
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
    sides = {side(effect.average)}
    if len(effect.others) > 1:
        ends = {end.side for end in effect.ends} if effect.ends else {0}
        if ends == {-1, 1}:
            return Holds.DEPENDS
        sides |= ends
    return Holds.HOLDS if sides == {sign} else Holds.FAILS if sides == {-sign} else Holds.UNDECIDED


def _change(effect: Interval) -> str:
    return estimate(effect.mean, effect.low, effect.high, sign=True)


def _subject(question: _BetaQuestion) -> str:
    return f"With {question.name} higher by 1, all else equal, the slope of log entropy over training changes by"


def _ends_text(effect: BetaEffect, question: _BetaQuestion) -> str:
    """Describe the effects at both ends of the other beta, and their difference; empty with one value."""
    if effect.ends is None:
        return ""
    bounds = "no intervals"
    if effect.ends[0].effect.low is not None:
        bounds = f"{END_CONFIDENCE:.0%} each".replace("%", " %")
    lowest, highest = (f"{_change(end.effect)} at {question.other} = {end.other:g}" for end in effect.ends)
    text = f"{_subject(question)} {lowest} and by {highest} ({bounds}; below 0: it falls faster)."
    both = "an interaction of β1 and β2"
    if {end.side for end in effect.ends} == {-1, 1}:
        contrast = (
            f"So the sign of what {question.name} does depends on {question.other}, and no average stands for it."
        )
    elif effect.interaction is None:
        contrast = f"No seed has both, so {both} cannot be excluded."
    else:
        shown = "is shown" if side(effect.interaction) else "cannot be excluded"
        contrast = f"The second minus the first is {_change(effect.interaction)}: {both} {shown}."
    return f"{text} {contrast}"


def _average_text(effect: BetaEffect, question: _BetaQuestion) -> str:
    configs = count(effect.num_configs, "config")
    if effect.stage is Stage.CONFIRM:
        configs = f"{effect.num_configs} of the confirmed configs"
    one_stage = f"{count(effect.average.n, f'{effect.stage} seed')}, {configs}"
    if effect.ends is None:
        only = f"; {question.other} = {effect.others[0]:g} in all of them" if len(effect.others) == 1 else ""
        return f"{_subject(question)} {_change(effect.average)} (below 0: it falls faster), {one_stage}{only}."
    if {end.side for end in effect.ends} == {-1, 1}:
        return f"This is from {one_stage}."
    text = f"On average over the values of {question.other} it changes by {_change(effect.average)}, {one_stage}."
    if side(effect.average) and {end.side for end in effect.ends} != {side(effect.average)}:
        text += " That both ends have this sign is not shown, so nothing is decided."
    return text


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
