"""The common ground of the store's parts: transactions, the fence, the event log."""

import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from sqlalchemy import Column, ColumnElement, Connection, Engine, Executable, Select, Table, and_, select, update

from sweep_service.errors import Conflict, NotFound, StaleEpoch
from sweep_service.store import tables as t
from sweep_service.store.database import reading, writing
from sweep_service.sweep.records import Record, Sweep
from sweep_service.sweep.spec import SweepSpec

AnyRecord = TypeVar("AnyRecord", bound=Record)


EVALUATION_STAGE: Final = "benchmark"
"""Word in the column `stage` of `trials` that marks a row as an evaluation."""
IS_TRAINING: Final = t.trials.c.stage != EVALUATION_STAGE
"""The condition that a row of `trials` is a trial, no evaluation."""
IS_FINAL_REPORT: Final = ~t.reports.c.interim & t.reports.c.superseded_at.is_(None)
"""The condition that a row of `reports` is of a sweep's final report, no interim or superseded one."""
_KEPT_SPECS: Final = 500
_specs: dict[str, tuple[object, SweepSpec]] = {}
"""Specs as they are stored and parsed, by digest."""


@dataclass(frozen=True)
class Fence:
    """A runner's right to write: the sweep and the epoch of its lease. Writes raise StaleEpoch once it is over."""

    sweep_id: str
    epoch: int


class Rows:
    """Base of the store's parts."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()

    @contextmanager
    def _fenced(self, fence: Fence) -> Generator[Connection]:
        """Open a writing transaction for the sweep's present runner.

        Raises: StaleEpoch, if another runner has taken over.
        """
        with writing(self.engine) as connection:
            own = update(t.sweeps).where(t.sweeps.c.id == fence.sweep_id, t.sweeps.c.epoch == fence.epoch)
            if connection.execute(own.values(epoch=fence.epoch)).rowcount == 0:
                raise StaleEpoch(f"epoch {fence.epoch} of sweep {fence.sweep_id} is over")
            yield connection

    @contextmanager
    def _read(self, sweep_id: str | None = None) -> Generator[Any]:
        """Open a transaction that reads one consistent state.

        Raises: NotFound, if `sweep_id` is given and there is no such sweep.
        """
        with reading(self.engine) as connection:
            if sweep_id is not None:
                of_sweep(connection, sweep_id, t.sweeps.c.id)
            yield connection

    def _change(self, table: Table, row_id: str, **values: Any) -> None:
        with writing(self.engine) as connection:
            change(connection, table, row_id, **values)

    def _records(self, kind: type[AnyRecord], query: Select[Any], sweep_id: str | None = None) -> list[AnyRecord]:
        """Return the rows of a query as records.

        Raises: NotFound, if `sweep_id` is given and there is no such sweep.
        """
        with self._read() as connection:
            rows = connection.execute(query).mappings().all()
            if sweep_id is not None and not rows:
                of_sweep(connection, sweep_id, t.sweeps.c.id)
        return [kind.model_validate(dict(row)) for row in rows]

    def _rows(self, query: Executable) -> Sequence[Any]:
        with self._read() as connection:
            return connection.execute(query).all()

    def _value(self, query: Executable) -> Any:
        """Return the only value that a query finds; None if it finds none."""
        with self._read() as connection:
            return connection.execute(query).scalar_one_or_none()

    def _sweeps(self, query: Select[Any]) -> list[Sweep]:
        with self._read() as connection:
            return [as_sweep(row) for row in connection.execute(query).mappings()]


def append_event(connection: Connection, sweep_id: str, type_: str, *data: Mapping[str, Any]) -> None:
    """Add an event for each of `data`, with the sweep's next numbers.

    The sweep's row lock keeps numbers gapless and in commit order.
    """
    bump = update(t.sweeps).where(t.sweeps.c.id == sweep_id).values(last_seq=t.sweeps.c.last_seq + len(data))
    last = connection.execute(bump.returning(t.sweeps.c.last_seq)).scalar_one_or_none()
    if last is None:
        raise NotFound("sweep", sweep_id)
    event = {"sweep_id": sweep_id, "time": time.time(), "type": type_}
    rows = [event | {"seq": last - len(data) + place, "data": dict(one)} for place, one in enumerate(data, 1)]
    if rows:
        connection.execute(t.events.insert(), rows)


def one_sweep(connection: Connection, sweep_id: str, *, lock: bool = False) -> Any:
    """Return the sweep's row; `lock` keeps others from changing it until the transaction ends.

    Raises: NotFound; with `lock` Conflict, if the sweep is archived, or is to be deleted.
    """
    query = select(t.sweeps).where(t.sweeps.c.id == sweep_id)
    row = connection.execute(query.with_for_update() if lock else query).mappings().one_or_none()
    if row is None:
        raise NotFound("sweep", sweep_id)
    deletion = select(t.deletions.c.keep_report).where(t.deletions.c.sweep_id == sweep_id)
    if lock and (archived := connection.execute(deletion).scalar_one_or_none()) is not None:
        state = "is archived: its curves and checkpoints are gone" if archived else "is being deleted"
        raise Conflict(f"sweep {sweep_id} {state}, so nothing of it can go on or be built anew; submit its spec anew")
    return row


def of_sweep(connection: Connection, sweep_id: str, column: Column[Any]) -> Any:
    """Return one value of a sweep's row; parsing all of it takes longer than most queries.

    Raises: NotFound.
    """
    row = connection.execute(select(column).where(t.sweeps.c.id == sweep_id)).one_or_none()
    if row is None:
        raise NotFound("sweep", sweep_id)
    return row[0]


def as_sweep(row: Mapping[Any, Any]) -> Sweep:
    """Return a row of `sweeps` as a record. A spec is parsed once, which takes longer than all the rest."""
    stored, parsed = _specs.get(row["spec_digest"], (None, None))
    if parsed is None or stored != row["spec"]:
        if len(_specs) >= _KEPT_SPECS:
            _specs.clear()
        parsed = SweepSpec.model_validate(row["spec"])
        _specs[row["spec_digest"]] = row["spec"], parsed
    return Sweep.model_validate({**row, "spec": parsed})


def is_row_of(record: Record, table: Table) -> ColumnElement[bool]:
    """Return the condition that a row is a record's, by the table's key."""
    return and_(*(column == getattr(record, column.name) for column in table.primary_key))


def change(connection: Connection, table: Table, row: Record | str, **values: Any) -> None:
    """Set columns of a record's row, or of the row with this id in a table whose key is one column."""
    is_row = is_row_of(row, table) if isinstance(row, Record) else next(iter(table.primary_key)) == row
    connection.execute(update(table).where(is_row).values(values))


def insert_records(connection: Connection, table: Table, records: Sequence[Record]) -> None:
    """Insert one row a record."""
    if records:
        connection.execute(table.insert(), [record.model_dump(mode="json") for record in records])
