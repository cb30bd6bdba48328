"""The store: every fact about sweeps, in SQLite or PostgreSQL. The only package that uses SQL.

`Store` is safe to use from several threads and processes. Readers see committed states only. A runner's writes carry
a `Fence`; once another runner has taken the sweep over, each of them raises `StaleEpoch` and changes nothing. A state
and the event that tells of it are written in one transaction.
"""

from collections.abc import Generator
from contextlib import contextmanager

from sqlalchemy.engine import make_url
from sqlalchemy.exc import DatabaseError, OperationalError, ProgrammingError

from sweep_service.errors import ServiceError
from sweep_service.store.base import Fence
from sweep_service.store.curve_rows import CurveRows
from sweep_service.store.database import open_engine, schema_fault, schema_versions, upgrade
from sweep_service.store.deletion_rows import DeletionRows
from sweep_service.store.evaluation_rows import EvaluationRows
from sweep_service.store.generation_rows import GenerationRows
from sweep_service.store.judgement_rows import JudgementRows
from sweep_service.store.probe_rows import ProbeRows
from sweep_service.store.projection_rows import ProjectionRows
from sweep_service.store.report_content import KeptReport
from sweep_service.store.report_rows import ReportRows
from sweep_service.store.share_rows import ShareRows

__all__ = [
    "DatabaseAway",
    "DatabaseUnfit",
    "Fence",
    "KeptReport",
    "Store",
    "check_database",
    "open_store",
    "schema_versions",
]


class Store(
    GenerationRows,
    ShareRows,
    JudgementRows,
    EvaluationRows,
    CurveRows,
    ProjectionRows,
    ReportRows,
    ProbeRows,
    DeletionRows,
):
    """The store of all tables."""


class DatabaseAway(ServiceError):
    """The database cannot be reached, or does not let us in."""


class DatabaseUnfit(ServiceError):
    """A database of another version of the service or of another program, or a file that holds none."""


def open_store(url: str) -> Store:
    """Open the database and bring its schema up to date.

    Raises: DatabaseAway; DatabaseUnfit.
    """
    engine = open_engine(url)
    try:
        check_database(url)
        with _refusals(url):
            upgrade(engine)
    except ServiceError:
        engine.dispose()
        raise
    return Store(engine)


def check_database(url: str) -> None:
    """Check, without writing, that a database is the service's, or empty, and that this version can work with it.

    Raises: DatabaseAway, if it cannot be reached or does not let us in; DatabaseUnfit.
    """
    with _refusals(url):
        fault = schema_fault(url)
    if fault is not None:
        raise DatabaseUnfit(f"the database {make_url(url).render_as_string()} {fault}")


@contextmanager
def _refusals(url: str) -> Generator[None]:
    """Turn errors of a database's driver into errors with a remedy."""
    try:
        yield
    except DatabaseError as error:
        name = f"the database {make_url(url).render_as_string()}"
        reason = (str(error.orig).strip().splitlines() or ["no reason given"])[0]
        if not isinstance(error, OperationalError | ProgrammingError):  # the latter: no right to make tables
            raise DatabaseUnfit(f"{name} cannot be read: {reason}; restore it, or move it away") from error
        raise DatabaseAway(
            f"{name} cannot be used: {reason}; see that it runs, and that SWEEPS_DATABASE_URL has its address, user "
            "and password"
        ) from error
