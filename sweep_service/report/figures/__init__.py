"""The report's figures as plotly dictionaries, in the groups in which the page shows them."""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from sweep_service.report.figures.benchmark_figures import benchmark_entropy_figures, pass_figures
from sweep_service.report.figures.entropy_by_beta import entropy_figures
from sweep_service.report.figures.entropy_drivers import driver_figures
from sweep_service.report.figures.figure_style import ConfigStyle, Figure, config_styles
from sweep_service.report.figures.heatmap import heatmap_figures
from sweep_service.report.figures.metric_curves import curve_figures
from sweep_service.report.figures.regions import region_figures
from sweep_service.report.figures.search_course import search_figures
from sweep_service.report.figures.tradeoff_figure import tradeoff_figures
from sweep_service.report.model import Report

__all__ = ["ConfigStyle", "Figure", "FigureGroup", "config_styles", "figure_groups"]

Make = Callable[[Report, Mapping[str, ConfigStyle]], list[Figure]]

_GROUPS: Final[tuple[tuple[str, str, tuple[Make, ...]], ...]] = (
    ("curves", "Entropy and reward", (curve_figures("entropy", "eval/avg_at_k", "reward/mean"),)),
    (
        "more",
        "More curves",
        (
            entropy_figures,
            curve_figures(
                "eval/reward_mean",
                "completion/length_mean",
                "clip_fraction/low",
                "clip_fraction/high",
                "ppo_kl",
                "grad_norm",
            ),
        ),
    ),
    ("tokens", "What the loss did with tokens", (region_figures, driver_figures)),
    ("passes", "pass@k: what more samples would find", (curve_figures("eval/pass_at_k"), pass_figures)),
    (
        "values",
        "Which values are good",
        (heatmap_figures, tradeoff_figures, benchmark_entropy_figures, search_figures),
    ),
)
"""Id, title, and the functions that draw its figures."""


class FigureGroup(NamedTuple):
    """Figures that answer one question."""

    id: str
    title: str
    figures: list[Figure]


def figure_groups(report: Report, styles: Mapping[str, ConfigStyle]) -> dict[str, FigureGroup]:
    """Return the groups that have a figure, by id."""
    groups = [
        FigureGroup(id_, title, [figure for make in makers for figure in make(report, styles)])
        for id_, title, makers in _GROUPS
    ]
    return {group.id: group for group in groups if group.figures}
