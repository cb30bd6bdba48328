"""The report of a sweep: which config is best, by how much, and how sure that is.

    inputs = ReportInputs(sweep=…, configs=…, trials=…, curves=…)
    report = build(inputs)              # one typed object: every number and every sentence
    render_html(report), render_markdown(report), report_json(report), report.best.yaml

Pure: the same rows give the same bytes. Reads no database, no clock and no network.
"""

from sweep_service.report.build import build
from sweep_service.report.facts.report_inputs import CURVE_KEYS, ReportInputs
from sweep_service.report.model import REPORT_VERSION, Report, report_json
from sweep_service.report.render.csv import render_csv
from sweep_service.report.render.html import page_script, render_html
from sweep_service.report.render.markdown import render_markdown

__all__ = [
    "CURVE_KEYS",
    "REPORT_VERSION",
    "Report",
    "ReportInputs",
    "build",
    "page_script",
    "render_csv",
    "render_html",
    "render_markdown",
    "report_json",
]
