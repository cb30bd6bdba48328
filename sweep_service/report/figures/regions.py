"""Shares of the token regions and of the ratio over time."""

from collections.abc import Mapping

from sweep_service.report.figures.common import Figure, Look
from sweep_service.report.figures.curves import curve_figure
from sweep_service.report.model import Report


def region_figures(report: Report, look: Mapping[str, Look]) -> list[Figure]:
    """Shares of the token regions and of the ratio over time."""
    keys = ("share/na_lp", "share/pa_lp")
    return [curve_figure(found, report, look) for found in report.curves if found.key in keys]
