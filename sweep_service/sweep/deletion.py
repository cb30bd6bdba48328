"""Deletion of a sweep: its user's wish, and the worker's progress. Pure."""

from enum import StrEnum

from sweep_service.sweep.records import Record


class DeletionState(StrEnum):
    """Stage of a deletion."""

    ASKED = "ASKED"  # a worker carries it out
    DELETED = "DELETED"  # nothing of the sweep is left but its name
    ARCHIVED = "ARCHIVED"  # its row, its trials and its report are left


class Deletion(Record):
    """The wish that a sweep be deleted, or archived; it stays when the sweep is gone."""

    sweep_id: str
    name: str
    keep_report: bool
    """True if the sweep is archived: its spec, trials and report stay readable."""
    asked_at: float
    by: str | None = None
    """Fingerprint of the token with which it was asked for."""
    mlflow_done_at: float | None = None
    files_done_at: float | None = None
    rows_done_at: float | None = None
    message: str | None = None
    """The present hindrance."""

    @property
    def state(self) -> DeletionState:
        """Its stage. Runs in MLflow may be left when it is done: they go once MLflow answers."""
        if self.rows_done_at is None:
            return DeletionState.ASKED
        return DeletionState.ARCHIVED if self.keep_report else DeletionState.DELETED
