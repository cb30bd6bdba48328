"""Options that several commands have, and what they name: the server, and one of its sweeps."""

from typing import Annotated

import typer

from sweep_service.client import Client
from sweep_service.errors import NotFound, ServiceError

Json = Annotated[bool, typer.Option("--json", help="Print JSON, in the API's shape.")]
SpecFile = Annotated[
    str, typer.Option("--file", "-f", help="The file of the spec, YAML or JSON; - reads standard input.")
]
Which = Annotated[
    str | None,
    typer.Argument(metavar="[SWEEP]", help="The sweep's id, a part of it, or its name. Default: the newest sweep."),
]
Timeout = Annotated[
    float | None, typer.Option("--timeout", min=0, help="Wait for at most this many seconds, then exit with 9.")
]
_ID_LENGTH = 30


def connect(patience_s: float = 2) -> Client:
    """Return a client of the server that the environment names; a person waits, so it gives up soon."""
    return Client.from_env(patience_s=patience_s)


def find_sweep(client: Client, which: str | None) -> str:
    """Return the id of a sweep, given by its id, its name (the newest of that name), or the beginning or end of its id;
    without any, the id of the newest sweep.

    Raises: NotFound, if there is none; ServiceError, if several sweeps have that part in their ids.
    """
    if which is None:
        newest = next(iter(client.sweeps()), None)
        if newest is None:
            raise NotFound("sweep")
        return newest.id
    if which.startswith("swp_") and len(which) == _ID_LENGTH:
        return which
    matches: list[str] = []
    for sweep in client.sweeps():
        if sweep.name == which:
            return sweep.id
        if which and (sweep.id.startswith(which) or sweep.id.endswith(which)):
            matches.append(sweep.id)
    if len(matches) > 1:
        raise ServiceError(f"{len(matches)} sweeps have {which!r} in their id, such as {matches[0]}; give more of it")
    if not matches:
        raise NotFound("sweep", which)
    return matches[0]
