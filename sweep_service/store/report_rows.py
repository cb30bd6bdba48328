"""Stored reports, each with the digest of its inputs, and requests for interim or new ones."""

import hashlib
import time
from collections.abc import Collection, Mapping
from typing import Any, Final

from pydantic_core import from_json
from sqlalchemy import Connection, Engine, LargeBinary, exists, func, or_, select, update
from sqlalchemy.dialects import postgresql, sqlite

from sweep_service.errors import Conflict, NotReady
from sweep_service.store import tables as t
from sweep_service.store.base import IS_FINAL_REPORT, Rows, append_event, change, of_sweep, one_sweep
from sweep_service.store.database import writing
from sweep_service.store.report_content import CommonPart, KeptReport, Packed, deflated, pack, report_version
from sweep_service.sweep.extension import CHOICES, COMPARED
from sweep_service.sweep.records import Record, SweepState

_KEPT_PARTS: Final = 3
"""Number of common parts that stay in memory, those asked for last: one a version of the code that built reports."""
_BEGINNING: Final = 1024
"""Number of bytes of a stored JSON that are enough to read its version."""
_INTERIM: Final = [state.value for state in SweepState if state.has_interim_report]


class StoredReport(Record):
    """A final report that is kept, whatever its formats."""

    digest: str
    """Digest of its inputs, which names it."""
    created_at: float
    superseded_at: float | None
    """Time at which a newer one took its place; None for the one that stands."""
    report_version: int | None
    """Version of the code that built it."""


class ReportRows(Rows):
    """Reports in their formats (html, json, md, …). A sweep has interim ones while it runs, then a final one.

    Final ones that a newer one has superseded stay, and are read by their digests alone.
    """

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._parts: dict[str, CommonPart] = {}

    def put_report(
        self,
        sweep_id: str,
        inputs_digest: str,
        contents: Mapping[str, bytes],
        common_part: bytes = b"",
        *,
        compares: bool = False,
    ) -> None:
        """Keep a final report, which supersedes the sweep's earlier one; interim ones are dropped.

        The same digest again is no change. A report that was built while its sweep was archived is left out, for it may
        lack curves that have gone meanwhile.

        Args:
            common_part: bytes that contents may hold and that many reports have in common; stored once for all.
            compares: whether the report compares confirm results, of which the sweep's events shall tell.
        """
        r = t.reports.c
        rows = self._packed(contents, common_part)
        with writing(self.engine) as connection:
            if connection.execute(select(t.deletions.c.name).where(t.deletions.c.sweep_id == sweep_id)).first():
                return
            _supersede(connection, sweep_id)
            same = update(t.reports).where(r.sweep_id == sweep_id, r.inputs_digest == inputs_digest)
            connection.execute(same.values(superseded_at=None))
            formats = select(r.format).where(r.sweep_id == sweep_id, r.inputs_digest == inputs_digest)
            present = set(connection.execute(formats).scalars())
            keys = {"sweep_id": sweep_id, "inputs_digest": inputs_digest, "created_at": time.time()}
            for row in rows:
                if row["format"] not in present:
                    connection.execute(t.reports.insert().values(keys | row))
            if compares:
                _tell_compared(connection, sweep_id)
            _set_failure(connection, sweep_id, None)

    def put_interim_report(
        self,
        sweep_id: str,
        inputs_digest: str,
        contents: Mapping[str, bytes],
        common_part: bytes = b"",
        *,
        compares: bool = False,
    ) -> None:
        """Keep an interim report in place of the one before; no change once the sweep has stopped running.

        It supersedes the final report of a sweep that has ended before and was given more.

        Args:
            compares: as for `put_report`.
        """
        keys = {"sweep_id": sweep_id, "inputs_digest": inputs_digest, "created_at": time.time(), "interim": True}
        rows = self._packed(contents, common_part)
        with writing(self.engine) as connection:
            if not SweepState(one_sweep(connection, sweep_id, lock=True)["state"]).has_interim_report:
                return
            _supersede(connection, sweep_id)
            for row in rows:
                connection.execute(t.reports.insert().values(keys | row))
            if compares:
                _tell_compared(connection, sweep_id)
            _set_failure(connection, sweep_id, None)

    def _packed(self, contents: Mapping[str, bytes], common_part: bytes) -> list[dict[str, Any]]:
        """Return the columns of each content, and store the common part if one of them needs it."""
        name = hashlib.sha256(common_part).hexdigest()
        packed = {format_: pack(content, common_part) for format_, content in contents.items()}
        is_needed = any(content.part_at is not None for content in packed.values())
        stored = select(t.report_parts.c.digest).where(t.report_parts.c.digest == name)
        if is_needed and self._value(stored) is None:
            insert = (sqlite if self.engine.dialect.name == "sqlite" else postgresql).insert(t.report_parts)
            row = insert.values(digest=name, deflated=deflated(common_part)).on_conflict_do_nothing()
            with writing(self.engine) as connection:
                connection.execute(row)
        return [
            {"format": format_, **content._asdict(), "part": None if content.part_at is None else name}
            for format_, content in packed.items()
        ]

    def set_report_failure(self, sweep_id: str, reason: str) -> None:
        """Note why a sweep's report could not be built. The next report that is kept clears it."""
        with writing(self.engine) as connection:
            _set_failure(connection, sweep_id, reason)

    def report_failure(self, sweep_id: str) -> str | None:
        """Return the reason why the last try to build a sweep's report failed; None if it did not."""
        with self._read() as connection:
            return of_sweep(connection, sweep_id, t.sweeps.c.report_failure)

    def get_report(self, sweep_id: str, format_: str) -> bytes:
        """Return a sweep's final report. Raises: NotFound; NotReady, if it has not been built yet."""
        report = self.find_report(sweep_id, format_)
        if report is None or report.interim:
            raise NotReady(f"the report of sweep {sweep_id} has not been built yet")
        return report.content

    def find_report(self, sweep_id: str, format_: str, inputs_digest: str | None = None) -> KeptReport | None:
        """Return the report that stands: the final one, or while the sweep runs the interim one.

        Args:
            inputs_digest: return the final report of this digest instead, superseded or not.
        Raises: NotFound.
        """
        r = t.reports.c
        query = select(t.reports).where(r.sweep_id == sweep_id, r.format == format_)
        with self._read() as connection:
            state = SweepState(of_sweep(connection, sweep_id, t.sweeps.c.state))
            if inputs_digest is not None:
                query = query.where(r.inputs_digest == inputs_digest, ~r.interim)
            else:
                query = query.where(r.superseded_at.is_(None) if state.has_interim_report else IS_FINAL_REPORT)
            row = connection.execute(query).one_or_none()
            if row is None:
                return None
            part = self._parts.get(row.part)
            if row.part is not None and part is None:
                query = select(t.report_parts.c.deflated).where(t.report_parts.c.digest == row.part)
                part = CommonPart(bytes(connection.execute(query).scalar_one()))
                self._parts = dict([*self._parts.items()][1 - _KEPT_PARTS :]) | {row.part: part}
        return KeptReport(Packed(bytes(row.content), row.gzipped, row.part_at), part, row.interim, row.created_at)

    def ruined_trials(self, sweep_id: str) -> frozenset[str] | None:
        """Return the ids of the trials that were ruined by the report that stands; None if there is none to say so.

        Raises: NotFound.
        """
        kept = self.find_report(sweep_id, "verdict")
        ruined = from_json(kept.content).get("ruined") if kept is not None else None
        return None if ruined is None else frozenset(ruined)

    def stored_reports(self, sweep_id: str) -> list[StoredReport]:
        """Return a sweep's final reports, the one that stands first, then the superseded ones, newest first.

        Raises: NotFound.
        """
        r = t.reports.c
        head = func.substr(r.content, 1, _BEGINNING, type_=LargeBinary).label("head")
        query = select(r.inputs_digest, r.created_at, r.superseded_at, r.gzipped, head)
        query = query.where(r.sweep_id == sweep_id, r.format == "json", ~r.interim)
        with self._read(sweep_id) as connection:
            rows = connection.execute(query.order_by(r.superseded_at.is_not(None), r.superseded_at.desc())).all()
        return [
            StoredReport(
                digest=row.inputs_digest,
                created_at=row.created_at,
                superseded_at=row.superseded_at,
                report_version=report_version(bytes(row.head), gzipped=row.gzipped),
            )
            for row in rows
        ]

    def answered(self, before: str) -> list[tuple[str, dict[str, Any]]]:
        """Return the id and the base of each sweep with a final report that was submitted earlier, oldest first.

        Sweeps that a trainer of one's own trained are left out.

        Args:
            before: id of a sweep.
        """
        s, r = t.sweeps.c, t.reports.c
        reported = exists().where(r.sweep_id == s.id, r.format == "verdict", IS_FINAL_REPORT)
        query = select(s.id, s.spec["training"]).where(s.id < before, reported).order_by(s.id)
        query = query.where(s.spec["trainer"].as_string().is_(None))
        return [(id_, base) for id_, base in self._rows(query)]

    def report_digest(self, sweep_id: str) -> str | None:
        """Return the digest of the inputs of the final report, if there is one."""
        r = t.reports.c
        return self._value(select(r.inputs_digest).where(r.sweep_id == sweep_id, IS_FINAL_REPORT).limit(1))

    def next_late(self, not_now: Collection[str]) -> str | None:
        """Return an ended sweep whose report is to be built: because somebody asks for it, else because there is none.

        Sweeps that failed or were cancelled have none yet; the sweep that ended last comes first.

        Args:
            not_now: ids of sweeps that are left out, unless somebody asks for their reports.
        """
        s, ended = t.sweeps.c, [state.value for state in SweepState if state.is_over]
        reported = exists().where(t.reports.c.sweep_id == s.id, IS_FINAL_REPORT)
        deleted = exists().where(t.deletions.c.sweep_id == s.id)
        due = or_(s.report_wanted, ~reported & s.id.not_in(list(not_now)))
        query = select(s.id).where(s.state.in_(ended), ~deleted, due).order_by(s.report_wanted.desc())
        return self._value(query.order_by(s.ended_at.desc()).limit(1))

    def request_report(self, sweep_id: str, by: str | None = None) -> None:
        """Note that somebody wants the report of an ended sweep built anew. Repeating it changes nothing.

        The request stands until the report is kept, or cannot be built.

        Raises: NotFound; Conflict, if the sweep has not ended, or is archived: its curves are gone.
        """
        with writing(self.engine) as connection:
            row = one_sweep(connection, sweep_id, lock=True)
            state = SweepState(row["state"])
            if not state.is_over:
                raise Conflict(f"sweep {sweep_id} is {state}: its report is built by itself when it ends")
            if not row["report_wanted"]:
                change(connection, t.sweeps, sweep_id, report_wanted=True, report_failure=None)
                append_event(connection, sweep_id, "sweep.report_requested", {"by": by})

    def report_requested(self, sweep_id: str) -> bool:
        """True if somebody waits for the report of a sweep to be built, or built anew."""
        with self._read() as connection:
            return of_sweep(connection, sweep_id, t.sweeps.c.report_wanted)

    def want_report(self, sweep_id: str) -> None:
        """Note that somebody wants an interim report, or a newer one; no change unless the sweep runs."""
        s = t.sweeps.c
        runs = (s.id == sweep_id) & s.state.in_(_INTERIM)
        if self._value(select(s.report_wanted).where(runs)) is not False:
            return  # a page that asks every second must not delay trials' writes
        with writing(self.engine) as connection:
            connection.execute(update(t.sweeps).where(runs).values(report_wanted=True))

    def take_wanted_report(self, not_now: Collection[str]) -> str | None:
        """Return a running sweep whose report somebody wants, and clear the request, for the caller builds it.

        Args:
            not_now: ids of sweeps that must wait.
        """
        s = t.sweeps.c
        wanted = select(s.id).where(s.report_wanted, s.state.in_(_INTERIM), s.id.not_in(list(not_now)))
        if self._value(wanted.limit(1)) is None:
            return None
        with writing(self.engine) as connection:
            first = wanted.order_by(s.id).limit(1).with_for_update(skip_locked=True)
            sweep_id = connection.execute(first).scalar_one_or_none()
            if sweep_id is not None:
                change(connection, t.sweeps, sweep_id, report_wanted=False)
            return sweep_id


def _supersede(connection: Connection, sweep_id: str) -> None:
    """Drop a sweep's interim report, and mark its final one as superseded."""
    of_sweep = t.reports.c.sweep_id == sweep_id
    connection.execute(t.reports.delete().where(of_sweep, t.reports.c.interim))
    connection.execute(update(t.reports).where(of_sweep, IS_FINAL_REPORT).values(superseded_at=time.time()))


def _tell_compared(connection: Connection, sweep_id: str) -> None:
    """Add the event that a report has compared confirm results, unless it would follow such an event.

    So a page that has an interim report built every few seconds adds one event until somebody makes a choice.
    """
    e = t.events.c
    last = select(e.type).where(e.sweep_id == sweep_id, e.type.in_((COMPARED, *CHOICES))).order_by(e.seq.desc())
    if connection.execute(last.limit(1)).scalar_one_or_none() != COMPARED:
        append_event(connection, sweep_id, COMPARED, {})


def _set_failure(connection: Connection, sweep_id: str, reason: str | None) -> None:
    """Note why a report could not be built, or that it was; of a sweep that does not run, nobody waits for it then."""
    s = t.sweeps.c
    still_wanted = s.report_wanted & s.state.in_(_INTERIM)
    change(connection, t.sweeps, sweep_id, report_failure=reason, report_wanted=still_wanted)
