"""Warnings about trials by the signs that their curves show: one for each sign, with the worst trial's figures."""

from collections.abc import Callable
from typing import Final

from sweep_service.health.run_health import RunCurves
from sweep_service.health.signs import SIGNS
from sweep_service.health.signs import Evidence as Found
from sweep_service.report.findings.rule import Evidence, Rule
from sweep_service.report.findings.sweep_rules import by_config
from sweep_service.report.sweep_facts import Facts
from sweep_service.sweep.records import TrialState


def _worst(look: Callable[[RunCurves], Found | None]) -> Callable[[Facts], Evidence | None]:
    """Look at every trial, count by config those that show a sign, and give the worst one's figures."""

    def over_trials(facts: Facts) -> Evidence | None:
        rows = [row for row in facts.trials if row.id in facts.inputs.series or row.state is TrialState.DIVERGED]
        hit = [(row, found) for row in rows if (found := look(facts.run_curves[row.id]))]
        if not hit:
            return None
        trials = [row for row, _ in hit]
        worst, found = max(hit, key=lambda one: (one[1].badness, -one[0].number))
        lead = "Worst: trial" if len(hit) > 1 else "Trial"
        example = f"{worst.label}, {worst.stage} seed {worst.seed}: {found.words}"
        text = f"{by_config(facts, trials)}. {lead} {worst.number} ({example})."
        return Evidence(text, [trial.id for trial in trials])

    return over_trials


CURVE_RULES: Final = tuple(Rule(sign.code, sign.condition, _worst(sign.look)) for sign in SIGNS)
