"""Learning: held-out accuracy, reward, pass@k minus avg@k, reward against length."""

from collections.abc import Mapping

from sweep_service.report.figures.common import Figure, Look
from sweep_service.report.figures.curves import curve_figure
from sweep_service.report.model import Report


def learning_figures(report: Report, look: Mapping[str, Look]) -> list[Figure]:
    """Learning: held-out accuracy, reward, pass@k minus avg@k, reward against length."""
    keys = ("eval/avg_at_k", "reward/mean", "eval/pass_at_k")
    return [curve_figure(found, report, look) for found in report.curves if found.key in keys]
