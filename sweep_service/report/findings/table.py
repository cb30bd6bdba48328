"""All rules in the order in which the report lists what they find: warnings that weaken the verdict come first."""

from collections.abc import Sequence
from typing import Final

from sweep_service.report.findings.benchmark_rules import BENCHMARK_RULES
from sweep_service.report.findings.beta_claims import BETA_CLAIMS
from sweep_service.report.findings.comparison_rules import COMPARISON_RULES
from sweep_service.report.findings.curve_rules import CURVE_RULES
from sweep_service.report.findings.paper_claims import PAPER_CLAIMS
from sweep_service.report.findings.rule import Evidence, Rule
from sweep_service.report.findings.space_rules import SPACE_RULES
from sweep_service.report.findings.sweep_rules import SWEEP_RULES, trainer_cautions
from sweep_service.report.model import Caution, Claim, Holds
from sweep_service.report.sweep_facts import Facts

WARNINGS: Final = (*SWEEP_RULES, *COMPARISON_RULES, *BENCHMARK_RULES, *CURVE_RULES, *SPACE_RULES)
CLAIMS: Final = (*PAPER_CLAIMS, *BETA_CLAIMS)


def cautions(facts: Facts) -> list[Caution]:
    """Return every warning that applies; of those about curves, the ones of the verdict's own configs come first."""
    comparison = facts.verdict.comparison
    judged = {facts.best.id if facts.best else "", comparison.comparator_id if comparison else ""}
    own = {row.id for row in facts.trials if row.config_id in judged}
    return [
        *_warnings(facts, (*SWEEP_RULES, *COMPARISON_RULES, *BENCHMARK_RULES)),
        *sorted(_warnings(facts, CURVE_RULES), key=lambda caution: own.isdisjoint(caution.trials)),
        *trainer_cautions(facts),
        *_warnings(facts, SPACE_RULES),
    ]


def claims(facts: Facts) -> list[Claim]:
    """Return every claim of the CE-GPPO paper that the sweep has the configs for, with what the sweep says to it."""
    return [
        Claim(
            code=rule.code,
            claim=rule.condition,
            outcome=evidence.outcome or Holds.UNDECIDED,
            evidence=evidence.text,
            **evidence.figures,
        )
        for rule, evidence in _met(facts, CLAIMS)
    ]


def _warnings(facts: Facts, rules: Sequence[Rule]) -> list[Caution]:
    return [
        Caution(code=rule.code, rule=met.condition or rule.condition, text=met.text, trials=list(met.trials))
        for rule, met in _met(facts, rules)
    ]


def _met(facts: Facts, rules: Sequence[Rule]) -> list[tuple[Rule, Evidence]]:
    looks = ((rule, rule.look(facts)) for rule in rules)
    return [(rule, evidence) for rule, evidence in looks if evidence is not None]
