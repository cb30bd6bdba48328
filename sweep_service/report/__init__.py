"""The report of a sweep: which config is best, by how much, and how sure that is.

    inputs = ReportInputs(sweep=…, configs=…, trials=…, curves=…)
    report = build(inputs)              # one typed object: every number and every sentence
    render_html(report), render_markdown(report), report_json(report), report.best.yaml

Pure: the same rows give the same bytes. Reads no database, no clock and no network. Only what is imported here is
quick to import: `build` brings scipy, `render` plotly and matplotlib.
"""

from sweep_service.report.model import REPORT_VERSION, Report, report_json

__all__ = ["REPORT_VERSION", "Report", "report_json"]
