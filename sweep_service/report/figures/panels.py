"""Descriptive panels: performance profiles, interquartile means, probabilities of improvement."""

from collections.abc import Mapping

from sweep_service.report.figures.common import Figure, Look
from sweep_service.report.model import Report


def panel_figures(report: Report, look: Mapping[str, Look]) -> list[Figure]:
    """Descriptive panels: performance profiles, interquartile means, probabilities of improvement."""
    del report, look
    return []
