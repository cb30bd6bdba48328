"""Policy entropy by beta: all configs in one figure, then small multiples."""

from collections.abc import Mapping

from sweep_service.report.figures.common import Figure, Look
from sweep_service.report.figures.curves import curve_figure
from sweep_service.report.model import Report


def entropy_figures(report: Report, look: Mapping[str, Look]) -> list[Figure]:
    """Policy entropy by beta: all configs in one figure, then small multiples."""
    keys = ("entropy",)
    return [curve_figure(found, report, look) for found in report.curves if found.key in keys]
