"""The store: every fact about sweeps, in SQLite or PostgreSQL. The only package that uses SQL.

`Store` is safe to use from several threads and processes. Readers see committed states only. A runner's writes carry
a `Fence`; once another runner has taken the sweep over they raise `StaleEpoch` and change nothing. A state and the
event that tells of it are written in one transaction.
"""

from sqlalchemy.exc import OperationalError

from sweep_service.errors import ServiceError
from sweep_service.store.base import Fence
from sweep_service.store.curve_rows import CurveRows
from sweep_service.store.database import open_engine, schema_versions, upgrade
from sweep_service.store.evaluation_rows import EvaluationRows
from sweep_service.store.probe_rows import ProbeRows
from sweep_service.store.problem_rows import ProblemRows
from sweep_service.store.projection_rows import ProjectionRows
from sweep_service.store.report_content import KeptReport
from sweep_service.store.report_rows import ReportRows
from sweep_service.store.sweep_rows import SweepRows
from sweep_service.store.trial_rows import TrialRows

__all__ = ["DatabaseAway", "Fence", "KeptReport", "Store", "open_store", "schema_versions"]


class Store(SweepRows, TrialRows, EvaluationRows, CurveRows, ProblemRows, ProjectionRows, ReportRows, ProbeRows):
    """The store of all tables."""


class DatabaseAway(ServiceError):
    """The database cannot be reached, or does not let us in."""


def open_store(url: str) -> Store:
    """Open the database and bring its schema up to date.

    Raises: DatabaseAway, if it cannot be reached or does not let us in.
    """
    engine = open_engine(url)
    try:
        upgrade(engine)
    except OperationalError as error:
        engine.dispose()
        reason = (str(error.orig).strip().splitlines() or ["no reason given"])[0]
        raise DatabaseAway(
            f"the database {engine.url.render_as_string()} cannot be used: {reason}; see that it runs, and that "
            "SWEEPS_DATABASE_URL has its address, user and password"
        ) from error
    return Store(engine)
