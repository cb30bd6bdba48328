"""The report as one HTML file that opens offline: plotly is inside, nothing is loaded, only our own scripts run."""

import hashlib
import re
from base64 import b64encode
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any, Final, cast

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape
from plotly.offline import get_plotlyjs

from sweep_service.report.figures import Figure, config_styles, figure_groups
from sweep_service.report.figures.figure_style import DASHES
from sweep_service.report.figures.seed_dots import seed_figure
from sweep_service.report.formatting import count, duration, interval, no_more, number, rounded, signed
from sweep_service.report.model import ConfigRow, Outcome, Report
from sweep_service.report.parts.best_config import FILE_NAME
from sweep_service.report.render import bars, views
from sweep_service.report.render.csv import render_csv
from sweep_service.report.render.embedding import embedded
from sweep_service.report.render.sections import sections_of
from sweep_service.sweep.labels import short_name, value_text
from sweep_service.sweep.records import Role, Stage

_PAGE: Final = Path(__file__).parent / "page"
_RUINED: Final = "A run is ruined if it fails, diverges, collapses, or ends far below the others; else it is sound."
_HERE: Final = f"{_RUINED} On other problems the order of the configs may be another."
_OUTCOMES: Final = {
    Outcome.BETTER: _RUINED,
    Outcome.WORSE: f"{_RUINED} Stay with what it is compared with.",
    Outcome.EQUIVALENT: _RUINED,
    Outcome.AHEAD: _RUINED,
    Outcome.BEHIND: _RUINED,
    Outcome.ALIKE: _RUINED,
    Outcome.AHEAD_HERE: _HERE,
    Outcome.BEHIND_HERE: _HERE,
    Outcome.ALIKE_HERE: _HERE,
    Outcome.UNDECIDED: _RUINED,
    Outcome.INSUFFICIENT: "There is not enough to say anything with a stated confidence.",
    Outcome.EXPLORATORY: "A ranking to plan the next sweep with, not a finding.",
}
_COMMAND: Final = re.compile(r"(sweeps extend \S+ --confirm-seeds [0-9]+)")


def render_html(report: Report) -> bytes:
    """Render the page. Equal reports give equal bytes."""
    styles = config_styles(report)
    seeds, groups = seed_figure(report, styles), figure_groups(report, styles)
    drawn = [*([seeds] if seeds else []), *(figure for group in groups.values() for figure in group.figures)]
    script, plotly = (_PAGE / "page.js").read_text(), get_plotlyjs()
    files = {"configs.csv": render_csv(report, "configs"), "trials.csv": render_csv(report, "trials")}
    if report.best is not None:
        files[FILE_NAME] = report.best.yaml.encode()
    context = {
        "report": report,
        "sections": sections_of(report, groups),
        "outcome_note": _OUTCOMES[report.verdict.outcome],
        "styles": styles,
        "legend": [row for row in sorted(report.configs, key=lambda row: row.number) if _drawn(row)],
        "shown": {id_ for id_, style in styles.items() if style.shown},
        "leader": views.leader(report),
        "seeds": seeds,
        "groups": groups,
        "figures": Markup(embedded(drawn)),
        "files": {name: f"data:text/plain;base64,{b64encode(file).decode()}" for name, file in files.items()},
        "style": Markup((_PAGE / "page.css").read_text()),
        "script": Markup(script),
        "plotly": Markup(plotly),
        "policy": f"default-src 'none'; script-src {_hash(plotly)} {_hash(script)}; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'",
    }
    return _environment().get_template("page.html.j2").render(context).encode()


def page_script() -> bytes:
    """Return the script that every page holds as it is: plotly, nearly all of a page's bytes."""
    return get_plotlyjs().encode()


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_PAGE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    cast("dict[str, Any]", environment.filters).update(
        number=number,
        signed=signed,
        no_more=no_more,
        count=count,
        short_name=short_name,
        value_text=value_text,
        blank=lambda value: "" if value is None else value,
        utc=lambda seconds: datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC"),
        amount=_amount,
        duration=duration,
        spread=_spread,
        with_commands=_with_commands,
    )
    cast("dict[str, Any]", environment.globals).update(
        views=views, bars=bars, interval=interval, rounded=rounded, SPACE=Role.SPACE, TUNE=Stage.TUNE,
        DASHES=DASHES, FILE_NAME=FILE_NAME,
    )  # fmt: skip
    return environment


def _drawn(row: ConfigRow) -> bool:
    return row.entropy_start is not None or row.tune is not None or row.confirm is not None


def _amount(value: float) -> str:
    """Write a cost with three digits: `950`, `12.3 k`, `4.56 M`."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.3g}"


def _spread(figures: Sequence[Figure]) -> list[tuple[Figure, bool]]:
    """Pair each figure with True if it takes a whole row: it asks for one, or nothing would stand beside it."""
    pairs: list[tuple[Figure, bool]] = []
    for wide, group in groupby(figures, key=lambda figure: bool(figure.get("wide"))):
        run = list(group)
        pairs += [(figure, wide) for figure in run]
        if len(run) % 2:
            pairs[-1] = (run[-1], True)
    return pairs


def _with_commands(text: str) -> Markup:
    """Mark the commands in a text as code, which is not broken at a hyphen."""
    return Markup(_COMMAND.sub(r"<code class=command>\1</code>", str(escape(text))))


@cache
def _hash(script: str) -> str:
    return f"'sha256-{b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
