"""The report as Markdown: the page's story in text and tables. Curves are left to HTML and JSON."""

from sweep_service.report.formatting import plain
from sweep_service.report.model import Report
from sweep_service.report.render import views
from sweep_service.report.render.markdown_text import titled
from sweep_service.report.render.sections import sections_of


def render_markdown(report: Report) -> bytes:
    """Render the summary, ending in a newline. Equal reports give equal bytes."""
    sweep, verdict = report.sweep, report.verdict
    blocks = [f"# Sweep {plain(sweep.name)}"]
    if report.interim:
        blocks.append(f"**Interim report.** {views.interim_text(report)}")
    blocks.append(f"**{verdict.outcome}**: {plain(views.sentence(report))}")
    if verdict.basis:
        blocks.append(plain(verdict.basis))
    blocks.append(f"Objective: {plain(report.objective)}.")
    if sweep.message:
        blocks.append(plain(sweep.message))
    if verdict.ties:
        blocks.append(f"**Which may be the best.** {plain(verdict.ties.text)}")
    if verdict.next:
        blocks.append(f"**What would settle it.** {plain(verdict.next.text)}")
    for section in sections_of(report):
        blocks += titled(section.title, section.markdown(report) if section.markdown else [])
    versions = "".join(f", {plain(name)} {plain(version)}" for name, version in report.versions.items())
    blocks.append(
        f"Sweep `{sweep.id}`, spec `{sweep.spec_digest[:12]}`, inputs `{report.inputs_digest[:12]}`{versions}."
    )
    return ("\n\n".join(blocks) + "\n").encode()
