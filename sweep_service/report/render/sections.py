"""The report's sections in their order: the page and the Markdown are both made from this one table."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from operator import attrgetter
from typing import Final

from sweep_service.report.figures.seed_dots import seed_rows
from sweep_service.report.formatting import count
from sweep_service.report.model import Outcome, Report
from sweep_service.report.render import markdown_sections as markdown
from sweep_service.report.render import views


@dataclass(frozen=True)
class Section:
    """One question that the report answers."""

    id: str
    """Its anchor, and the name of its template on the page. Of two rows with one id the first present one counts."""
    title: str
    present: Callable[[Report], object] = lambda _: True
    """Returns something true if the report has this section."""
    markdown: Callable[[Report], list[str]] | None = None
    """Returns its blocks, none if nothing is to be said; None for a section of the page alone."""
    contents: str | Callable[[Report], str] = ""
    """Name in the page's table of contents; a section without one lies folded under Details."""
    page_title: Callable[[Report], str] = lambda _: ""
    """Returns the title on the page, where it says more than in the Markdown; else an empty text."""
    figures: str = ""
    """Id of the group of figures that suffices for the section to be on the page."""
    css: str = ""

    def heading(self, report: Report) -> str:
        """Return the title on the page."""
        return self.page_title(report) or self.title

    def name(self, report: Report) -> str:
        """Return the name in the table of contents; empty for a folded section."""
        return self.contents if isinstance(self.contents, str) else self.contents(report)


def _at_cost(report: Report) -> str:
    units = views.units(report)
    return f"Every comparison{', also at equal ' if units else ''}{' and '.join(units)}"


def _explored(report: Report) -> bool:
    return report.exploration is not None or report.importance is not None


def _explores(report: Report) -> bool:
    """True if the parameters are the report's main part, because nothing was confirmed."""
    return _explored(report) and report.verdict.outcome is Outcome.EXPLORATORY


_PARAMETERS: Final = "What the parameters do"

SECTIONS: Final = (
    Section(
        "configs",
        "Every config",
        markdown=markdown.configs,
        contents="Seeds and configs",
        page_title=lambda report: "Every seed" if seed_rows(report) else "",
    ),
    Section(
        "warnings",
        "Warnings",
        attrgetter("cautions"),
        markdown.warnings,
        contents=lambda report: f"Warnings {len(report.cautions)}",
        css="cautions",
    ),
    Section("exploration", _PARAMETERS, _explores, markdown.exploration, contents="Parameters"),
    Section("curves", "Entropy and reward", attrgetter("curves"), contents="Curves"),
    Section("benchmarks", "Benchmarks", attrgetter("benchmarks"), markdown.benchmarks, contents="Benchmarks"),
    Section("best", "What to do next", attrgetter("best"), markdown.best, contents="What to do next", css="best"),
    Section("comparisons", "Every comparison", attrgetter("comparisons"), markdown.comparisons, page_title=_at_cost),
    Section("health", "Spread, entropy, reward, length and cost of every config", attrgetter("configs")),
    Section("exploration", _PARAMETERS, _explored, markdown.exploration, figures="values"),
    Section("claims", "What the CE-GPPO paper says, in this sweep", attrgetter("claims"), markdown.claims),
    Section("samples", "What the policies write", attrgetter("samples"), markdown.samples),
    Section(
        "failures",
        "Trials that went wrong",
        views.failures,
        markdown.failures,
        page_title=lambda report: f"{count(len(views.failures(report)), 'trial')} that went wrong",
    ),
    Section("trials", "All trials", page_title=lambda report: f"All {count(len(report.trials), 'trial')}"),
    Section("method", "How this was computed", markdown=markdown.method),
)


def sections_of(report: Report, figures: Collection[str] = ()) -> list[Section]:
    """Return a report's sections in order.

    Args:
        figures: ids of the groups of figures that are drawn.
    """
    by_id: dict[str, Section] = {}
    for section in SECTIONS:
        if section.present(report) or section.figures in figures:
            by_id.setdefault(section.id, section)
    return list(by_id.values())
