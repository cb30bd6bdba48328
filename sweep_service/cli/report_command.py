"""The command `report`: writes a sweep's report, lists those that are kept, and has a new one built."""

import time
from collections.abc import Callable
from datetime import datetime
from typing import Annotated

import typer

from sweep_service.cli.arguments import Which, connect
from sweep_service.cli.failures import interruptible
from sweep_service.cli.output import print_json, print_table, say, span, write_output
from sweep_service.client import Client, TooLate
from sweep_service.errors import NotFound, NotReady
from sweep_service.schemas import MEDIA_TYPES, ReportFormat, ReportsView

_FRESH_S = 60.0
"""Age of an interim report, in seconds, from which the command waits for a newer one."""
_BUILT_WITHIN_S = 600.0
"""Seconds to wait for a report whose building does not wait for trials; a worker gives one up after as many."""
_REMINDER_S = 30.0
"""Seconds after which a wait is mentioned again; then after twice as many, and so on."""
_SHOWN_DIGITS = 12
"""Letters of a digest that are shown; they tell a sweep's reports apart."""


def report(
    sweep: Which = None,
    format: Annotated[
        ReportFormat, typer.Option("--format", help="png and svg: a picture of the main findings.")
    ] = "html",
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            help="The file to write; - is standard output. Default: a file for html, png, svg, else -.",
        ),
    ] = None,
    final: Annotated[
        bool, typer.Option("--final", help="Wait for the final report instead of taking an interim one.")
    ] = False,
    anew: Annotated[
        bool, typer.Option("--anew", help="Of a sweep that has ended: have it built by the present version first.")
    ] = False,
    digest: Annotated[
        str | None, typer.Option("--digest", help="The one that --list shows with this digest, or its beginning.")
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="List the sweep's final reports instead.")] = False,
    timeout: Annotated[
        float | None,
        typer.Option(
            "--timeout",
            min=0,
            help="Wait for at most this many seconds, then exit with 9. Default: 600; with --final no limit.",
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="With --list: print JSON, in the API's shape.")] = False,
) -> None:
    """Write a sweep's report, and print the file's path.

    The HTML is one file that opens offline. While the sweep runs, the report is an interim one, which is built when you
    ask for it; the command waits for it, and Ctrl-C ends the wait. A final report stays as
    it was built; --anew has it built again, as a newer version of the service builds it, and the earlier one is kept.

    [bold]sweeps report demo[/bold]
    [bold]sweeps report demo --format md | less[/bold]
    [bold]sweeps report demo --anew && sweeps report demo --list[/bold]
    """
    if sum((final, anew, listed, digest is not None)) > 1 or (json and not listed):
        raise typer.BadParameter("give one of --final, --anew, --digest and --list; --json goes with --list")
    with connect() as client:
        sweep_id = client.find_sweep(sweep)
        if listed:
            print_json(client.reports(sweep_id)) if json else _print_reports(client.reports(sweep_id))
            return
        waiting = interruptible(f"no longer waiting; a worker builds it all the same: sweeps report {sweep_id}")
        limit_s = _BUILT_WITHIN_S if timeout is None and not final else timeout
        try:
            with waiting:
                content = _content(client, sweep_id, format, limit_s, digest, final=final, anew=anew)
        except NotReady as error:
            raise TooLate(
                f"{error}; {span(limit_s or 0)} are over. Ask again: sweeps report {sweep_id}, or see whether a worker "
                "runs: sweeps worker --check"
            ) from error
        name = client.get(sweep_id).name
    if output is None:
        is_text = not MEDIA_TYPES[format].startswith(("text/html", "image/"))  # readable on a terminal
        output = "-" if is_text else f"{name}-{sweep_id[-6:]}.{format}"
    write_output(content, output)


def _content(
    client: Client,
    sweep_id: str,
    format_: ReportFormat,
    limit_s: float | None,
    digest: str | None,
    *,
    final: bool,
    anew: bool,
) -> bytes:
    """Return the report that the options name, and say on standard error what is waited for.

    Raises: NotReady, if it is not built within `limit_s` seconds.
    """
    if digest is not None:
        return client.report(sweep_id, format_, digest=_whole_digest(client, sweep_id, digest))
    if anew:
        _build_anew(client, sweep_id, limit_s)
    on_wait = _reminder()
    if final or anew:
        return client.report(sweep_id, format_, limit_s, on_wait=on_wait)
    content, interim, age_s = client.report_so_far(sweep_id, format_, limit_s, fresh_s=_FRESH_S, on_wait=on_wait)
    if interim:
        say(f"interim report, {span(age_s)} old: the sweep goes on, and every number may still change")
    return content


def _reminder() -> Callable[[str], None]:
    """Return what says why it is waited: at first, when the reason changes, and after a while once more."""
    began = time.monotonic()
    said, again_at = "", began + _REMINDER_S

    def remind(reason: str) -> None:
        nonlocal said, again_at
        now = time.monotonic()
        if reason != said:
            say(f"waiting: {reason}; Ctrl-C ends the wait")
            said = reason
        elif now >= again_at:
            again_at = 2 * now - began
            say(f"still waiting after {span(now - began)}: {reason}; does a worker run? sweeps worker --check")

    return remind


def _build_anew(client: Client, sweep_id: str, timeout_s: float | None) -> None:
    """Rebuild a sweep's report, wait for it, and print where the previous one is kept."""
    before = [report.digest for report in client.reports(sweep_id).reports[:1]]
    say("asking for a new report, which a worker builds")
    after = [report.digest for report in client.report_anew(sweep_id, timeout_s).reports[:1]]
    if before and before == after:
        say("it is the same as before, so that one stands")
    elif before:
        say(f"the one before is kept: sweeps report {sweep_id} --digest {before[0][:_SHOWN_DIGITS]}")


def _whole_digest(client: Client, sweep_id: str, beginning: str) -> str:
    """Return the digest with this beginning, the newest one's if several reports have it.

    Raises: NotFound.
    """
    for stored in client.reports(sweep_id).reports:
        if stored.digest.startswith(beginning):
            return stored.digest
    raise NotFound("report", beginning, f" of sweep {sweep_id}; sweeps report {sweep_id} --list shows what is kept")


def _print_reports(view: ReportsView) -> None:
    """Print the list of a sweep's final reports."""
    rows = [
        (
            stored.digest[:_SHOWN_DIGITS],
            _local(stored.created_at),
            str(stored.report_version or "unknown"),
            "stands" if stored.superseded_at is None else f"until {_local(stored.superseded_at)}",
        )
        for stored in view.reports
    ]
    print_table(("DIGEST", "BUILT", "VERSION", "STOOD"), rows) if rows else say("there is no final report yet")
    if view.building:
        say("a new one is being built")
    if view.failure is not None:
        say(f"the last try to build one failed: {view.failure}")


def _local(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).astimezone().strftime("%Y-%m-%d %H:%M:%S")
