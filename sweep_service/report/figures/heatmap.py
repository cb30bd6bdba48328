"""The objective over two parameters: mean, interval and number of seeds in each cell."""

from collections.abc import Mapping

from sweep_service.report.figures.common import Figure, Look
from sweep_service.report.model import Report


def heatmap_figures(report: Report, look: Mapping[str, Look]) -> list[Figure]:
    """The objective over two parameters: mean, interval and number of seeds in each cell."""
    del report, look
    return []
