"""The store: every fact about sweeps, in SQLite or PostgreSQL. The only package that uses SQL.

`Store` is safe to use from several threads and processes. Readers see committed states only. A runner's writes carry
a `Fence`; once another runner has taken the sweep over they raise `StaleEpoch` and change nothing. A state and the
event that tells of it are written in one transaction.
"""

from sweep_service.store.base import Fence
from sweep_service.store.curve_rows import CurveRows
from sweep_service.store.database import open_engine, schema_versions, upgrade
from sweep_service.store.probe_rows import ProbeRows
from sweep_service.store.projection_rows import ProjectionRows
from sweep_service.store.report_content import KeptReport
from sweep_service.store.report_rows import ReportRows
from sweep_service.store.sweep_rows import SweepRows
from sweep_service.store.trial_rows import TrialRows

__all__ = ["Fence", "KeptReport", "Store", "open_store", "schema_versions"]


class Store(SweepRows, TrialRows, CurveRows, ProjectionRows, ReportRows, ProbeRows):
    """The store of all tables."""


def open_store(url: str) -> Store:
    """Open the database and bring its schema up to date."""
    engine = open_engine(url)
    upgrade(engine)
    return Store(engine)
