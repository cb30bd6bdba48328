"""What moved entropy: the predicted change by region, stacked, against the measured one."""

from collections.abc import Mapping

from sweep_service.report.figures.common import Figure, Look
from sweep_service.report.model import Report


def driver_figures(report: Report, look: Mapping[str, Look]) -> list[Figure]:
    """What moved entropy: the predicted change by region, stacked, against the measured one."""
    del report, look
    return []
