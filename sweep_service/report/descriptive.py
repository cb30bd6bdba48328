"""Summaries without a claim: interquartile means, profiles, probabilities of improvement."""

from sweep_service.report.facts import Facts
from sweep_service.report.model import Descriptive


def descriptive(facts: Facts) -> Descriptive | None:
    """Summaries without a claim: interquartile means, profiles, probabilities of improvement."""
    del facts
    return None
