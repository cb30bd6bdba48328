"""Finding the server, and the sweep that is meant."""

from sweep_service.client import Client
from sweep_service.errors import NotFound

_ID_LENGTH = 30


def connect(patience_s: float = 2) -> Client:
    """Return a client of the server that the environment means; a person waits, so it gives up soon."""
    return Client.from_env(patience_s=patience_s)


def find_sweep(client: Client, which: str | None) -> str:
    """Return the id of the sweep that is meant: by its id or the begin or end of it, by its name (the newest of that
    name), or the newest of all if nothing is given.

    Raises: NotFound; there is none.
    """
    if which and which.startswith("swp_") and len(which) == _ID_LENGTH:
        return which
    for sweep in client.sweeps():
        if not which or sweep.name == which or sweep.id.startswith(which) or sweep.id.endswith(which):
            return sweep.id
    raise NotFound("sweep", which or "at all")
