"""The report as one HTML file that opens offline: plotly is inside, nothing is loaded, only our own scripts run."""

import base64
import hashlib
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, cast

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape
from plotly.offline import get_plotlyjs

from sweep_service.report.figures import Figure, config_styles, sections
from sweep_service.report.figures.figure_style import DASHES
from sweep_service.report.figures.seed_dots import seed_figure
from sweep_service.report.formatting import count, duration, interval, number, rounded, signed
from sweep_service.report.model import Comparison, EffectLevel, Exploration, Outcome, Report, Verdict
from sweep_service.report.parts.best_config import FILE_NAME
from sweep_service.report.render import views
from sweep_service.report.render.csv import render_csv
from sweep_service.report.render.embedding import embedded
from sweep_service.sweep.labels import short_name, value_text
from sweep_service.sweep.records import Role, Stage

_PAGE: Final = Path(__file__).parent / "page"
_OUTCOMES: Final = {
    Outcome.BETTER: "The whole {} interval lies above zero.",
    Outcome.UNDECIDED: "The {} interval contains zero and differences that matter: these seeds decide nothing.",
    Outcome.EQUIVALENT: "The whole {} interval lies closer to zero than any difference that matters.",
    Outcome.WORSE: "The whole {} interval lies below zero: stay with what the config is compared with.",
    Outcome.INSUFFICIENT: "There is not enough to say anything with a stated confidence.",
    Outcome.EXPLORATORY: "A ranking to plan the next sweep with, not a finding.",
}
_COMMAND: Final = re.compile(r"(sweeps extend \S+ --confirm-seeds [0-9]+)")
Places = dict[str, float]
"""Position of each mark on an axis by name, in percent of the axis's width."""


def render_html(report: Report) -> bytes:
    """Render the page. Equal reports give equal bytes."""
    styles = config_styles(report)
    seeds, figures = seed_figure(report, styles), sections(report, styles)
    drawn = [*([seeds] if seeds else []), *(figure for section in figures for figure in section.figures)]
    compared = views.compared(report)
    ends = views.axis(compared, report.verdict.comparison)
    script = (_PAGE / "page.js").read_text()
    context = {
        "report": report,
        "styles": styles,
        "exploring": _explores(report),
        "contents": _contents(report),
        "sentence": views.sentence(report),
        "outcome_note": _outcome_note(report.verdict),
        "scale": _scale(report.verdict.comparison),
        "numbers": {trial.id: trial.number for trial in report.trials},
        "column_notes": views.column_notes(report.benchmarks) if report.benchmarks else [],
        "column_names": views.column_names(report.benchmarks) if report.benchmarks else [],
        "entropy_kept": views.entropy_kept(report),
        "passes": views.passes(report.benchmarks) if report.benchmarks else [],
        "varied": views.varied(report),
        "reference": views.reference(report),
        "against": views.reference_name(report),
        "tune_deltas": views.deltas(report, Stage.TUNE),
        "compared": compared,
        "comparator": views.comparator_name(compared),
        "confidence": views.confidence(report),
        "marks": {id_: _marks(c.low, c.difference, c.high, *ends) for id_, c in compared.items()},
        "zero": views.place(0, *ends),
        "spread_text": views.spread_text(report),
        "budgets": views.budgets(report),
        "units": views.units(report),
        "effects": _effects(report.exploration),
        "seeds": seeds,
        "sections": {section.id: section for section in figures},
        "legend": sorted(report.configs, key=lambda row: (not styles[row.id].shown, row.number)),
        "prompts": views.prompts(report.samples),
        "failures": views.failures(report),
        "file_name": FILE_NAME,
        "files": _files(report),
        "figures": Markup(embedded(drawn)),
        "style": Markup((_PAGE / "page.css").read_text()),
        "script": Markup(script),
        "plotly": Markup(get_plotlyjs()),
        "policy": _policy(script),
    }
    return _environment().get_template("page.html.j2").render(context).encode()


def page_script() -> bytes:
    """Return the script that every page holds as it is: plotly, nearly all of a page's bytes."""
    return get_plotlyjs().encode()


@lru_cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_PAGE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    cast("dict[str, Any]", environment.filters).update(
        number=number,
        signed=signed,
        count=count,
        short_name=short_name,
        value_text=value_text,
        utc=_utc,
        amount=_amount,
        duration=duration,
        cell_note=views.cell_note,
        spread=_spread,
        missing_text=views.missing_text,
        with_commands=_with_commands,
    )
    cast("dict[str, Any]", environment.globals).update(
        interval=interval, rounded=rounded, SPACE=Role.SPACE, DASHES=DASHES
    )
    return environment


def _utc(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")


def _amount(value: float) -> str:
    """Write a cost with three digits: `950`, `12.3 k`, `4.56 M`."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.3g}"


def _spread(figures: Sequence[Figure]) -> list[tuple[Figure, bool]]:
    """Pair each figure with whether it takes a whole row, because it asks for one or nothing would stand beside it."""
    wide = [bool(figure.get("wide")) for figure in figures]
    place = 0
    while place < len(figures):
        if wide[place]:
            place += 1
        elif place + 1 < len(figures) and not wide[place + 1]:
            place += 2
        else:
            wide[place] = True
    return list(zip(figures, wide, strict=True))


def _contents(report: Report) -> list[tuple[str, str]]:
    """Return anchor and name of every part that the page has, in its order."""
    parts = [
        ("configs", "Seeds and configs", True),
        ("warnings", f"Warnings {len(report.cautions)}", bool(report.cautions)),
        ("exploration", "Parameters", _explores(report)),
        ("curves", "Curves", bool(report.curves)),
        ("benchmarks", "Benchmarks", report.benchmarks is not None),
        ("best", "What to do next", report.best is not None),
        ("details", "Details", True),
    ]
    return [(anchor, name) for anchor, name, there in parts if there]


def _explores(report: Report) -> bool:
    """Say whether what parameters do is the report's main part, because nothing was confirmed."""
    known = report.exploration is not None or report.importance is not None
    return known and report.verdict.outcome is Outcome.EXPLORATORY


def _outcome_note(verdict: Verdict) -> str:
    found = verdict.comparison
    if verdict.outcome is Outcome.UNDECIDED and found and found.tolerated is not None:
        return "The interval is of runs that did not collapse or fail; those that did may cost more than it shows."
    return _OUTCOMES[verdict.outcome].format(f"{100 * found.confidence:.4g} %" if found else "")


def _with_commands(text: str) -> Markup:
    """Mark the commands in a text as code, which is not broken at a hyphen."""
    return Markup(_COMMAND.sub(r"<code class=command>\1</code>", str(escape(text))))


def _scale(comparison: Comparison | None) -> Places | None:
    """Place the verdict's interval on an axis with zero in the middle and room for a label beyond either end."""
    if comparison is None or comparison.low is None or comparison.high is None:
        return None
    reach = 1.7 * max(abs(comparison.low), abs(comparison.high)) or 1.0
    values = {"low": comparison.low, "mean": comparison.difference, "high": comparison.high, "zero": 0.0}
    return {name: views.place(value, -reach, reach, margin=0) for name, value in values.items()}


def _marks(low: float | None, mean: float, high: float | None, least: float, most: float) -> Places:
    """Place a mean and its interval on an axis, which may end before them; without an interval they coincide."""
    values = {"low": mean if low is None else low, "mean": mean, "high": mean if high is None else high}
    return {name: views.place(value, least, most) for name, value in values.items()}


def _effects(exploration: Exploration | None) -> list[list[tuple[EffectLevel, Places]]]:
    """Pair each effect's levels with their marks; all effects share one axis, so that strong ones look strong."""
    if exploration is None:
        return []
    levels = [level for effect in exploration.effects for level in effect.levels]
    values = [value for level in levels for value in (level.low, level.mean, level.high) if value is not None]
    least, most = min(values, default=0.0), max(values, default=1.0)

    return [
        [(level, _marks(level.low, level.mean, level.high, least, most)) for level in effect.levels]
        for effect in exploration.effects
    ]


def _files(report: Report) -> dict[str, str]:
    """Return links that hold a whole file each, by its name."""
    contents = {"configs.csv": render_csv(report, "configs"), "trials.csv": render_csv(report, "trials")}
    if report.best is not None:
        contents[FILE_NAME] = report.best.yaml.encode()
    return {name: f"data:text/plain;base64,{base64.b64encode(content).decode()}" for name, content in contents.items()}


def _policy(script: str) -> str:
    return (
        f"default-src 'none'; script-src {_plotly_hash()} {_hash(script)}; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )


def _hash(script: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


@lru_cache
def _plotly_hash() -> str:
    return _hash(get_plotlyjs())
