"""Options that several commands have, and what they name: the server, and one of its sweeps."""

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


def connect(patience_s: float = 2) -> Client:
    """Return a client of the server that the environment names; a person waits, so it gives up soon."""
    return Client.from_env(patience_s=patience_s)


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
