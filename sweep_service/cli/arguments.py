"""Options that several commands have, and what they name: the server, and one of its sweeps."""

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from sweep_service.client import Client
from sweep_service.errors import NotFound, ServiceError

Json = Annotated[bool, typer.Option("--json", help="Print JSON, in the API's shape.")]
SpecFile = Annotated[
    str | None,
    typer.Argument(
        metavar="FILE", help="The file of the spec, YAML or JSON; - reads standard input.", show_default=False
    ),
]
SpecFileOption = Annotated[str | None, typer.Option("--file", "-f", help="The same, as an option.")]
Which = Annotated[
    str | None,
    typer.Argument(
        metavar="[SWEEP]",
        help="The sweep's id, a part of it, or its name. Default: the newest sweep. Probes are found by their ids.",
    ),
]
Timeout = Annotated[
    float | None, typer.Option("--timeout", min=0, help="Wait for at most this many seconds, then exit with 9.")
]
_ID_LENGTH = 30
_WORK_ID = re.compile(r"(trl|evl)_[0-9a-z]{26}")
_SEARCHED_SWEEPS = 10
_AGO = re.compile(r"(\d{1,6}) ?([mhdw])")
_UNITS = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}


def one_file(argument: str | None, option: str | None) -> str:
    """Return the file of a spec, which was given either as an argument or as an option.

    Raises: typer.BadParameter, if it was given in both ways or in none.
    """
    given = [file for file in (argument, option) if file is not None]
    if len(given) != 1:
        problem = (
            "give FILE once, with -f or without" if given else "name the file of the spec, or - for standard input"
        )
        raise typer.BadParameter(problem, param_hint="FILE")
    return given[0]


def moment(text: str | None, option: str) -> datetime | None:
    """Return the time that somebody means by a date, in this machine's zone, or by how long ago it was: 7d.

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
    """Return a client of the server that the environment names; a person waits, so it gives up soon."""
    return Client.from_env(patience_s=patience_s)


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


def find_sweep(client: Client, which: str | None) -> str:
    """Return the id of a sweep, given by its id, its name (the newest of that name), or the beginning or end of its id;
    without any, the id of the newest sweep.

    A sweep that only probes has the name of the sweep whose cost it measured, and no results; it is found by its id,
    and otherwise only if there is no real one.

    Raises: NotFound, if there is none; ServiceError, if several sweeps have that part in their ids.
    """
    if which and which.startswith("swp_") and len(which) == _ID_LENGTH:
        return which
    probe: str | None = None
    matches: list[str] = []
    for sweep in client.sweeps():
        if which in (None, sweep.name):
            if not sweep.only_probes:
                return sweep.id
            probe = probe or sweep.id
        elif which and (sweep.id.startswith(which) or sweep.id.endswith(which)):
            matches.append(sweep.id)
    if probe is None and len(matches) > 1:
        raise ServiceError(f"{len(matches)} sweeps have {which!r} in their id, such as {matches[0]}; give more of it")
    if probe is None and not matches:
        raise NotFound("sweep", which)
    return probe or matches[0]
