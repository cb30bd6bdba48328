"""The report as one HTML file that opens offline: plotly is inside, nothing is loaded, only our own scripts run."""

import base64
import hashlib
import json
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, cast

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from sweep_service.records import Role, TrialState
from sweep_service.report.figures import Figure, looks, sections
from sweep_service.report.labels import count, interval, number, short_name, signed, value_text
from sweep_service.report.model import Comparison, Outcome, Report

_HERE: Final = Path(__file__).parent / "page"
_OUTCOMES: Final = {
    Outcome.BETTER: "The whole 95 % interval lies above zero.",
    Outcome.TIED: "The 95 % interval contains zero: with these seeds neither is shown to be better.",
    Outcome.WORSE: "The whole 95 % interval lies below zero: prefer the baseline.",
    Outcome.INSUFFICIENT: "There is not enough to say anything with a stated confidence.",
    Outcome.EXPLORATORY: "A ranking to plan the next sweep with, not a finding.",
}


def render_html(report: Report) -> bytes:
    """Render the page. Equal reports give equal bytes."""
    look = looks(report)
    made = sections(report, look)
    seeds = next((figure for section in made if section.id == "seeds" for figure in section.figures), None)
    main = [figure for section in made if section.open and section.id != "seeds" for figure in section.figures]
    more = [figure for section in made if not section.open for figure in section.figures]
    script = (_HERE / "page.js").read_text()
    page = _environment().get_template("page.html.j2")
    return page.render(
        report=report,
        outcome_note=_OUTCOMES[report.verdict.outcome],
        look=look,
        legend=sorted(report.configs, key=lambda row: (not look[row.id].shown, row.number)),
        numbers={trial.id: trial.number for trial in report.trials},
        failures=[trial for trial in report.trials if trial.state in (TrialState.FAILED, TrialState.DIVERGED)],
        scale=_scale(report.verdict.comparison),
        forest=_forest(report.comparisons),
        seeds=seeds,
        main=main,
        more=more,
        figures=Markup(_embedded([figure for figure in [seeds, *main, *more] if figure])),
        style=Markup((_HERE / "page.css").read_text()),
        script=Markup(script),
        plotly=Markup(get_plotlyjs()),
        policy=f"default-src 'none'; script-src {_plotly_hash()} {_hash(script)}; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'",
    ).encode()


@lru_cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    cast("dict[str, Any]", environment.filters).update(
        number=number, signed=signed, count=count, short_name=short_name, value_text=value_text, utc=_utc
    )
    cast("dict[str, Any]", environment.globals).update(interval=interval, SPACE=Role.SPACE)
    return environment


def _utc(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")


def _scale(comparison: Comparison | None) -> dict[str, float] | None:
    """Places of the verdict's interval and mean on an axis with zero in the middle, in percent."""
    if comparison is None or comparison.low is None or comparison.high is None:
        return None
    reach = 1.3 * max(abs(comparison.low), abs(comparison.high)) or 1.0
    values = {"low": comparison.low, "mean": comparison.difference, "high": comparison.high}
    return {name: round(50 + 50 * value / reach, 2) for name, value in values.items()}


def _forest(comparisons: list[Comparison]) -> list[tuple[Comparison, dict[str, float] | None]]:
    """Each comparison with the places of its interval, mean and zero on a common axis, in percent."""
    bounds = [bound for c in comparisons for bound in (c.low, c.high, c.difference) if bound is not None]
    low, high = min([0.0, *bounds]), max([0.0, *bounds])
    span = (high - low) or 1.0

    def place(value: float) -> float:
        return round(4 + 92 * (value - low) / span, 2)

    return [
        (
            c,
            {"low": place(c.low), "high": place(c.high), "mean": place(c.difference), "zero": place(0.0)}
            if c.low is not None and c.high is not None
            else None,
        )
        for c in comparisons
    ]


def _embedded(figures: list[Figure]) -> str:
    """JSON that can stand inside a script element: nothing in it can end the element or start a comment."""
    dumped = json.dumps(figures, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return dumped.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _hash(script: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


@lru_cache
def _plotly_hash() -> str:
    return _hash(get_plotlyjs())
