"""The store: every fact about sweeps, in SQLite or PostgreSQL. The only package that uses SQL.

`Store` is safe to use from several threads and processes. Readers see committed states only. A runner's writes carry
a `Fence`; once another runner has taken the sweep over they raise `StaleEpoch` and change nothing. A state and the
event that tells of it are written in one transaction.
"""

from alembic.util import CommandError
from sqlalchemy.exc import OperationalError

from sweep_service.errors import ServiceError
from sweep_service.store.base import Fence
from sweep_service.store.curve_rows import CurveRows
from sweep_service.store.database import open_engine, schema_versions, upgrade
from sweep_service.store.deletion_rows import DeletionRows
from sweep_service.store.evaluation_rows import EvaluationRows
from sweep_service.store.generation_rows import GenerationRows
from sweep_service.store.probe_rows import ProbeRows
from sweep_service.store.problem_rows import ProblemRows
from sweep_service.store.projection_rows import ProjectionRows
from sweep_service.store.report_content import KeptReport
from sweep_service.store.report_rows import ReportRows
from sweep_service.store.share_rows import ShareRows

__all__ = [
    "DatabaseAway",
    "DatabaseTooNew",
    "DatabaseTooOld",
    "Fence",
    "KeptReport",
    "Store",
    "open_store",
    "schema_versions",
]


class Store(
    GenerationRows,
    ShareRows,
    EvaluationRows,
    CurveRows,
    ProblemRows,
    ProjectionRows,
    ReportRows,
    ProbeRows,
    DeletionRows,
):
    """The store of all tables."""


class DatabaseAway(ServiceError):
    """The database cannot be reached, or does not let us in."""


class DatabaseTooNew(ServiceError):
    """The database has a schema that this version of the service does not know."""


class DatabaseTooOld(ServiceError):
    """The database has a schema from before the first release, from which no migration leads to today's."""


def open_store(url: str) -> Store:
    """Open the database and bring its schema up to date.

    Raises: DatabaseAway, if it cannot be reached or does not let us in; DatabaseTooNew; DatabaseTooOld.
    """
    engine = open_engine(url)
    try:
        upgrade(engine)
    except CommandError as error:
        name, (present, _) = engine.url.render_as_string(), schema_versions(engine)
        engine.dispose()
        if present is not None and present.isdecimal():  # such as 0021; a release's are like schema_0001
            raise DatabaseTooOld(
                f"the database {name} was made before the first release of the service (its schema is {present}) and "
                "cannot be brought up to date; move it away to begin with an empty one, or name another database in "
                "SWEEPS_DATABASE_URL or another SWEEPS_HOME"
            ) from error
        raise DatabaseTooNew(
            f"the database {name} was made by a newer version of the service ({error}); "
            "install that version again, or name another database in SWEEPS_DATABASE_URL or another SWEEPS_HOME"
        ) from error
    except OperationalError as error:
        engine.dispose()
        reason = (str(error.orig).strip().splitlines() or ["no reason given"])[0]
        raise DatabaseAway(
            f"the database {engine.url.render_as_string()} cannot be used: {reason}; see that it runs, and that "
            "SWEEPS_DATABASE_URL has its address, user and password"
        ) from error
    return Store(engine)
