"""Connections: SQLite (WAL, durable commits) or PostgreSQL, the schema's version, and the clock of leases."""

import re
import sqlite3
import time
from collections.abc import Generator
from contextlib import contextmanager
from enum import Enum, unique
from pathlib import Path
from typing import Any, Final

from alembic import command
from alembic.config import Config as AlembicConfig
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, create_engine, event, func, inspect, select, text
from sqlalchemy.engine import make_url

MIGRATIONS = Path(__file__).parent / "migrations"
_VERSIONS: Final = "alembic_version"
"""The table that names a database's schema."""
_ELSEWHERE: Final = "name another database in SWEEPS_DATABASE_URL or another SWEEPS_HOME"
_MOST_NAMED: Final = 3


def open_engine(url: str) -> Engine:
    """Open the database; make the folder of a SQLite file if it is missing."""
    parsed = make_url(url)
    if parsed.get_backend_name() != "sqlite":
        return create_engine(url, pool_pre_ping=True)
    if parsed.database:
        Path(parsed.database).parent.mkdir(parents=True, exist_ok=True)
    engine = create_engine(url, connect_args={"timeout": 30})
    event.listen(engine, "connect", _configure_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _begin_sqlite(connection: Connection) -> None:
    connection.exec_driver_sql(connection.get_execution_options().get("begin", "BEGIN"))


def _configure_sqlite(connection: Any, _record: object) -> None:
    connection.isolation_level = None  # the driver sends no BEGIN; _begin_sqlite does
    for pragma in ("busy_timeout=30000", "synchronous=FULL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {pragma}")
    # SQLite's timeout does not apply while others make the same switch to a write-ahead log.
    deadline = time.monotonic() + 30
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return


@contextmanager
def writing(engine: Engine) -> Generator[Connection]:
    """Open a transaction that writes. On SQLite it takes the write lock first, so that it cannot fail for it later."""
    with engine.connect().execution_options(begin="BEGIN IMMEDIATE") as connection, connection.begin():
        yield connection


@contextmanager
def reading(engine: Engine) -> Generator[Connection]:
    """Open a transaction that reads one consistent state."""
    snapshot = {} if engine.dialect.name == "sqlite" else {"isolation_level": "REPEATABLE READ"}
    with engine.connect().execution_options(**snapshot) as connection, connection.begin():
        yield connection


@unique
class Lock(Enum):
    """Work that only one process on a PostgreSQL may do at a time; the numbers are the locks' names there."""

    MIGRATION = 727274
    TURN = 727275
    """Giving the next trial to a sweep."""
    PROJECTION = 727276
    """Writing to MLflow, which can take minutes."""


def take(connection: Connection, lock: Lock) -> None:
    """Wait for a lock, and hold it until the transaction ends; on SQLite the transaction itself keeps others out."""
    if connection.dialect.name == "postgresql":
        connection.execute(select(func.pg_advisory_xact_lock(lock.value)))


def schema_fault(url: str) -> str | None:
    """Return the reason why this version cannot use a database, and the remedy; None if it can, or if it is empty.

    Nothing is written: a SQLite file stays as it is, whatever it holds.
    """
    engine = create_engine(url)
    try:
        with engine.connect() as connection:
            tables = inspect(connection).get_table_names()
            heads = MigrationContext.configure(connection).get_current_heads() if _VERSIONS in tables else ()
    finally:
        engine.dispose()
    revisions = {revision.revision for revision in ScriptDirectory.from_config(_migrations()).walk_revisions()}
    if not tables or (len(heads) == 1 and revisions.issuperset(heads)):
        return None
    schema = ", ".join(heads)
    if schema.isdecimal():  # such as 0021; a release's are like schema_0001
        return (
            f"was made before the first release of the service (its schema is {schema}) and cannot be brought up to "
            f"date; move it away to begin with an empty one, or {_ELSEWHERE}"
        )
    if re.fullmatch(r"schema_\d+", schema):
        newer = f"was made by a newer version of the service (its schema is {schema})"
        return f"{newer}; install that version, or {_ELSEWHERE}"
    others = sorted({*tables} - {_VERSIONS})
    named = ", ".join(others[:_MOST_NAMED]) + (", …" if len(others) > _MOST_NAMED else "") or "no table of the service"
    return f"belongs to another program (it holds {named}); {_ELSEWHERE}"


def upgrade(engine: Engine) -> None:
    """Bring the schema to the newest version; several processes may do so at once."""
    config = _migrations()
    with writing(engine) as connection:
        take(connection, Lock.MIGRATION)
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


def schema_versions(engine: Engine) -> tuple[str | None, str | None]:
    """Return the schema's version in the database, and the one this code needs."""
    with reading(engine) as connection:
        present = MigrationContext.configure(connection).get_current_revision()
    return present, ScriptDirectory.from_config(_migrations()).get_current_head()


def _migrations() -> AlembicConfig:
    config = AlembicConfig()
    config.set_main_option("script_location", str(MIGRATIONS))
    return config


def now_for_leases(connection: Connection) -> tuple[float, str]:
    """Return the seconds on a clock that nobody can set, and that clock's name.

    With SQLite it is the host's time since boot, named by the boot; with PostgreSQL the database's own clock.
    """
    if connection.dialect.name == "sqlite":
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return time.clock_gettime(time.CLOCK_BOOTTIME), boot
    seconds = connection.execute(text("SELECT extract(epoch FROM clock_timestamp())")).scalar_one()
    return float(seconds), "database"
