"""How much of the variation each parameter explains."""

from sweep_service.report.facts import Facts
from sweep_service.report.model import Importance


def importance(facts: Facts) -> Importance | None:
    """How much of the variation each parameter explains."""
    del facts
    return None
