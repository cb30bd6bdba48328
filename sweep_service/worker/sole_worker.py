"""Lets one worker at a time work on a SQLite database: two would show every sweep twice in MLflow.

With PostgreSQL there may be many; the database itself then sees to it that one of them projects.
"""

from pathlib import Path
from typing import IO

from sqlalchemy import make_url

from sweep_service.errors import ServiceError
from sweep_service.processes.owner_lock import own


class AnotherWorker(ServiceError):
    """Another worker works on this SQLite database."""


def sole_worker(database_url: str) -> IO[str] | None:
    """Keep other workers from a SQLite database until the returned file is closed; None if there may be several.

    Raises: AnotherWorker.
    """
    url = make_url(database_url)
    if url.get_backend_name() != "sqlite" or not url.database:
        return None
    path = Path(url.database).absolute()
    path.parent.mkdir(parents=True, exist_ok=True)
    return own(
        path.with_name(f"{path.name}.worker"),
        lambda owner: AnotherWorker(
            f"another worker (process {owner}) works on {path}, and with SQLite there may be only one; stop that one "
            "(`sweeps serve` has a worker of its own), or set SWEEPS_DATABASE_URL to a PostgreSQL database"
        ),
    )
