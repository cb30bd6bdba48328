"""Templates and static files of the pages. Every value is escaped; nothing is loaded from other servers."""

import hashlib
import math
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, cast

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from sweep_service.pages.progress import duration
from sweep_service.processes.disk_use import size_text
from sweep_service.sweep.endings import MEANINGS, TrialState, end_name, without_log_command
from sweep_service.sweep.labels import value_text
from sweep_service.sweep.records import Work
from sweep_service.sweep.state_table import TRIAL_LIFE, sweep_meaning

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "Referrer-Policy": "same-origin",  # with no-referrer browsers would hide the origin of our own forms
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_HERE: Final = Path(__file__).parent
_TYPES: Final = {
    "page.css": "text/css; charset=utf-8",
    "page.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
    "plotly.min.js": "text/javascript; charset=utf-8",
}


def render(template: str, **values: Any) -> str:
    """Render a template."""
    return _environment().get_template(f"{template}.html.j2").render(values)


def static_file(name: str) -> tuple[bytes, str] | None:
    """Return a file's content and its type; None if there is no such file."""
    return (_content(name), _TYPES[name]) if name in _TYPES else None


@cache
def _content(name: str) -> bytes:
    """Return the content of one of `_TYPES`; other names, which strangers may make up without end, are not kept."""
    folder = files("plotly") / "package_data" if name.startswith("plotly") else _HERE / "static"
    return (folder / name).read_bytes()


@cache
def _static_url(name: str) -> str:
    """Return a file's address, which changes with its content, so that browsers may cache it for good."""
    return f"/static/{name}?v={hashlib.sha256(_content(name)).hexdigest()[:12]}"


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    cast("dict[str, Any]", environment.filters).update(
        begin=_begin,
        duration=duration,
        number=_number,
        percent=lambda share: math.floor(100 * share),
        short=_short,
        size=size_text,
        sweep_meaning=sweep_meaning,
        end_meaning=_end_meaning,
        end_name=end_name,
        utc=_utc,
        without_log_command=without_log_command,
    )
    ended = [state for state in TrialState if state.is_over]
    going = [state for state in TrialState if not state.is_over and state is not TrialState.PENDING]
    lists = {"ended_states": ended, "count_states": [*going, *ended, TrialState.PENDING]}
    cast("dict[str, Any]", environment.globals).update(static=_static_url, **lists)
    return environment


def _end_meaning(work: Work) -> str:
    """Explain the state of a trial or an evaluation; after its end also the reason."""
    meaning = TRIAL_LIFE[work.state].meaning
    name = end_name(work)
    return f"{meaning} {name}: {MEANINGS[name].text}" if name else meaning


def _number(value: Any) -> str:
    """Format a number for people: three decimals, an en dash for none; other values stay as they are."""
    if value is None:
        return "\N{EN DASH}"
    if isinstance(value, float) and not 0 < abs(value) < 0.001:
        return f"{value:.3f}"
    return value_text(value)


def _begin(text: str) -> str:
    """Begin a sentence with a capital letter; Greek ones, of parameters, stay small."""
    return text[:1].upper() + text[1:] if text[:1].isascii() else text


def _short(text: str, length: int) -> str:
    return text if len(text) <= length else text[:length].rstrip() + " \N{HORIZONTAL ELLIPSIS}"


def _utc(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
