"""Objective against retained entropy, and the path of each config in that plane."""

from collections.abc import Mapping

from sweep_service.report.figures.common import Figure, Look
from sweep_service.report.model import Report


def tradeoff_figures(report: Report, look: Mapping[str, Look]) -> list[Figure]:
    """Objective against retained entropy, and the path of each config in that plane."""
    del report, look
    return []
