"""A sweep's final reports: lists them, finds one by its digest, and has a new one built."""

from datetime import datetime

from sweep_service.cli.output import print_table, say
from sweep_service.client import Client
from sweep_service.errors import NotFound
from sweep_service.schemas import ReportsView

_SHOWN_DIGITS = 12
"""Letters of a digest that are shown; they tell a sweep's reports apart."""


def build_anew(client: Client, sweep_id: str, timeout_s: float) -> None:
    """Have a sweep's report built anew, wait for it, and say what has become of the one before."""
    before = client.reports(sweep_id).reports[:1]
    say("asking for a new report, which a worker builds")
    after = client.report_anew(sweep_id, timeout_s).reports[:1]
    if not before:
        return
    earlier = before[0].digest[:_SHOWN_DIGITS]
    if [stored.digest for stored in before] == [stored.digest for stored in after]:
        say("it is the same as before, so that one stands")
    else:
        say(f"the one before is kept: sweeps report {sweep_id} --digest {earlier}")


def whole_digest(client: Client, sweep_id: str, beginning: str) -> str:
    """Return the digest of the report that begins like this; the newest one, if several do.

    Raises: NotFound.
    """
    for stored in client.reports(sweep_id).reports:
        if stored.digest.startswith(beginning):
            return stored.digest
    raise NotFound("report", beginning, f" of sweep {sweep_id}; sweeps report {sweep_id} --list shows what is kept")


def print_reports(view: ReportsView) -> None:
    """Print which final reports a sweep has."""
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
