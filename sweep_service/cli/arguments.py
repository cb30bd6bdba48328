"""Options that several commands share, and the lookups of the server and of the sweep that they name."""

import os
import re
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from sweep_service.cli.output import say
from sweep_service.client import Client
from sweep_service.errors import NotFound, ServiceError
from sweep_service.settings import Settings, misspelt, unused_by_client

Json = Annotated[bool, typer.Option("--json", help="Print JSON, in the API's shape.")]
Which = Annotated[
    str | None,
    typer.Argument(
        metavar="[SWEEP]",
        help="The sweep's id, a part of it, or its name. Default: the newest sweep. Probes are found by their ids.",
    ),
]
SweepToChange = Annotated[
    str,
    typer.Argument(
        metavar="SWEEP", help="The sweep's id, a part of it, or its name, unless several of that name have not ended."
    ),
]
Timeout = Annotated[
    float | None, typer.Option("--timeout", min=0, help="Wait for at most this many seconds, then exit with 9.")
]
_WORK_ID = re.compile(r"(trl|evl)_[0-9a-z]{26}")
_SEARCHED_SWEEPS = 10
_NOT_AMONG_THE_NEWEST = " in the newest sweeps; give its whole id, as `sweeps show --json` has it"
_AGO = re.compile(r"(\d{1,6}) ?([mhdw])")
_UNITS = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}


def moment(text: str | None, option: str) -> datetime | None:
    """Return the time of a date in this machine's zone, or of an age such as 7d.

    Raises: typer.BadParameter, if it is neither.
    """
    if text is None:
        return None
    try:
        if ago := _AGO.fullmatch(text.strip()):
            return datetime.now(UTC) - int(ago[1]) * _UNITS[ago[2]]
        return datetime.fromisoformat(text.strip()).astimezone()
    except (ValueError, OverflowError):
        wanted = "give a date, such as 2026-11-23 or 2026-11-23T16:00, or how long ago: 90m, 12h, 7d, 2w"
        raise typer.BadParameter(f"{text!r} is no time; {wanted}", param_hint=option) from None


def connect(patience_s: float = 2) -> Client:
    """Return a client of the server that the environment names; a person waits, so it gives up soon.

    Variables that look as if they named another server, and do not, are mentioned.
    """
    client = Client.from_env(patience_s=patience_s)
    for remark in (*misspelt(os.environ), *unused_by_client(Settings(), client.url)):
        say(remark)
    return client


def find_sweep_to_change(client: Client, which: str | None) -> str:
    """Return the id of a sweep that a command changes; of several with that name say which one it is."""
    return client.find_sweep_to_change(which, say)


def find_work(client: Client, which: str) -> str | None:
    """Return the id of a trial or an evaluation, given whole or as its last letters, as `sweeps show` prints them.

    Last letters are looked for in the newest sweeps alone. None, if nothing there has them.

    Raises: ServiceError, if several have them.
    """
    if _WORK_ID.fullmatch(which):
        return which
    end = which.removeprefix("…")
    matches = [
        work.id
        for sweep in client.newest_sweeps(_SEARCHED_SWEEPS).items
        for work in (*client.trials(sweep.id), *client.evaluations(sweep.id))
        if work.id.endswith(end)
    ]
    if len(matches) > 1:
        raise ServiceError(f"{len(matches)} trials have an id that ends with {end!r}, such as {matches[0]}; give more")
    return matches[0] if matches else None


def find_trial(client: Client, which: str) -> str:
    """Return the id of a trial, given as `find_work` takes it.

    Raises: NotFound, which says so if it names an evaluation or a sweep; ServiceError, if several trials are meant.
    """
    if (work_id := find_work(client, which)) is not None:
        return _no_evaluation(work_id)
    remedy = _NOT_AMONG_THE_NEWEST
    with suppress(ServiceError):
        client.find_sweep(which)
        remedy = f"; that is a sweep. List its trials: sweeps show {which} --trials, or end it: sweeps cancel {which}"
    raise NotFound("trial", which, remedy)


def _no_evaluation(work_id: str) -> str:
    if work_id.startswith("evl_"):
        raise NotFound("trial", work_id, "; that is an evaluation, which ends with its sweep")
    return work_id


def find_work_or_sweep(
    client: Client, which: str | None, find: Callable[[Client, str | None], str] = Client.find_sweep
) -> tuple[str | None, str]:
    """Return the id of the trial or the evaluation that is meant, if one is; else that of the sweep.

    Raises: NotFound; ServiceError, if several are meant.
    """
    if which and which.startswith(("trl_", "evl_", "…")):
        if (work_id := find_work(client, which)) is None:
            raise NotFound("trial", which, _NOT_AMONG_THE_NEWEST)
        return work_id, ""
    try:
        return None, find(client, which)
    except NotFound:
        if which is None or (work_id := find_work(client, which)) is None:
            raise
        return work_id, ""


def find_trial_or_sweep_to_change(client: Client, which: str) -> tuple[str | None, str]:
    """Return the id of the trial that is meant, if one is; else that of the sweep, as `find_sweep_to_change` does."""
    work_id, sweep_id = find_work_or_sweep(client, which, find_sweep_to_change)
    return work_id and _no_evaluation(work_id), sweep_id
