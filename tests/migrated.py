"""Databases that are migrated already: the real migrations run once a process, and tests get copies of the result."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from sqlalchemy import create_engine, text
from sqlalchemy.engine import make_url

from sweep_service.store import open_store, schema_versions, tables
from tests.postgres import emptied


def migrated(url: str) -> str:
    """Make a SQLite file with the schema, or empty a PostgreSQL database to its schema; return the URL.

    A SQLite file that exists stays as it is.
    """
    parsed = make_url(url)
    if parsed.get_backend_name() != "sqlite":
        return _without_rows(url)
    file = Path(parsed.database or "")
    file.parent.mkdir(parents=True, exist_ok=True)
    if not file.exists():
        file.write_bytes(_template())
    return url


@cache
def _template() -> bytes:
    with TemporaryDirectory(prefix="sweeps-template-") as folder:
        open_store(f"sqlite:///{folder}/template.db").close()
        (file,) = Path(folder).iterdir()  # closing has moved the write-ahead log into it
        return file.read_bytes()


def _without_rows(url: str) -> str:
    """Remove the rows of a PostgreSQL database, or what else is in it, and migrate it where it is not."""
    engine = create_engine(url)
    present, newest = schema_versions(engine)
    if present == newest:
        names = ", ".join(tables.metadata.tables)
        with engine.begin() as connection:
            connection.execute(text(f"TRUNCATE {names} RESTART IDENTITY"))
    else:
        open_store(emptied(url)).close()
    engine.dispose()
    return url
