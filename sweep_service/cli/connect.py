"""Finding the server, and the sweep that is meant."""

from sweep_service.client import Client
from sweep_service.errors import NotFound, ServiceError

_ID_LENGTH = 30


def connect(patience_s: float = 2) -> Client:
    """Return a client of the server that the environment means; a person waits, so it gives up soon."""
    return Client.from_env(patience_s=patience_s)


def find_sweep(client: Client, which: str | None) -> str:
    """Return the id of the sweep that is meant: by its id, by its name (the newest of that name), by the begin or end
    of its id, or the newest of all if nothing is given.

    Raises: NotFound, if there is none; ServiceError, if a part of an id fits several.
    """
    if which is None:
        newest = next(iter(client.sweeps()), None)
        if newest is None:
            raise NotFound("sweep")
        return newest.id
    if which.startswith("swp_") and len(which) == _ID_LENGTH:
        return which
    parts: list[str] = []
    for sweep in client.sweeps():
        if sweep.name == which:
            return sweep.id
        if which and (sweep.id.startswith(which) or sweep.id.endswith(which)):
            parts.append(sweep.id)
    if len(parts) > 1:
        raise ServiceError(f"{len(parts)} sweeps have {which!r} in their id, such as {parts[0]}; give more of it")
    if not parts:
        raise NotFound("sweep", which)
    return parts[0]
