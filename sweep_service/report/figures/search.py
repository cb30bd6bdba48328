"""The search: parallel coordinates, importance, time and cost of trials."""

from collections.abc import Mapping

from sweep_service.report.figures.common import Figure, Look
from sweep_service.report.model import Report


def search_figures(report: Report, look: Mapping[str, Look]) -> list[Figure]:
    """The search: parallel coordinates, importance, time and cost of trials."""
    del report, look
    return []
