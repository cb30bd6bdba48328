"""Stored reports, each with the digest of its inputs, and requests for interim ones."""

import time
from collections.abc import Collection, Mapping
from typing import Any, Final

from sqlalchemy import Connection, Engine, exists, select, update
from sqlalchemy.dialects import postgresql, sqlite

from sweep_service.errors import NotReady
from sweep_service.store import tables as t
from sweep_service.store.base import Rows, one_sweep
from sweep_service.store.database import writing
from sweep_service.store.report_content import CommonPart, KeptReport, Packed, deflated, digest, pack
from sweep_service.sweep.records import SweepState

_KEPT_PARTS: Final = 3
"""Number of common parts that stay in memory: one a version of the code that built the reports."""


class ReportRows(Rows):
    """Reports in their formats (html, json, md, …). A sweep has interim ones while it runs, then a final one."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._parts: dict[str, CommonPart] = {}

    def put_report(
        self, sweep_id: str, inputs_digest: str, contents: Mapping[str, bytes], common_part: bytes = b""
    ) -> None:
        """Keep a final report; the sweep's earlier ones are dropped. The same digest again is no change.

        Args:
            common_part: what contents may hold that many reports have in common; it is stored once for all.
        """
        r = t.reports.c
        rows = self._packed(contents, common_part)
        with writing(self.engine) as connection:
            earlier = (r.inputs_digest != inputs_digest) | r.interim
            connection.execute(t.reports.delete().where(r.sweep_id == sweep_id, earlier))
            known = select(r.format).where(r.sweep_id == sweep_id, r.inputs_digest == inputs_digest)
            present = set(connection.execute(known).scalars())
            keys = {"sweep_id": sweep_id, "inputs_digest": inputs_digest, "created_at": time.time()}
            for row in rows:
                if row["format"] not in present:
                    connection.execute(t.reports.insert().values(keys | row))
            _set_failure(connection, sweep_id, None)

    def put_interim_report(
        self, sweep_id: str, inputs_digest: str, contents: Mapping[str, bytes], common_part: bytes = b""
    ) -> None:
        """Keep an interim report in place of the one before; no change once the sweep has stopped running."""
        keys = {"sweep_id": sweep_id, "inputs_digest": inputs_digest, "created_at": time.time(), "interim": True}
        rows = self._packed(contents, common_part)
        with writing(self.engine) as connection:
            if not SweepState(one_sweep(connection, sweep_id, lock=True)["state"]).has_interim_report:
                return
            connection.execute(t.reports.delete().where(t.reports.c.sweep_id == sweep_id))
            for row in rows:
                connection.execute(t.reports.insert().values(keys | row))
            _set_failure(connection, sweep_id, None)

    def _packed(self, contents: Mapping[str, bytes], common_part: bytes) -> list[dict[str, Any]]:
        """Return the columns of each content, and store the common part if one of them needs it."""
        name = digest(common_part)
        packed = {format_: pack(content, common_part) for format_, content in contents.items()}
        if any(content.part_at is not None for content in packed.values()):
            self._keep_part(name, common_part)
        return [
            {"format": format_, **content._asdict(), "part": None if content.part_at is None else name}
            for format_, content in packed.items()
        ]

    def _keep_part(self, name: str, part: bytes) -> None:
        with self._read() as connection:
            if connection.execute(select(t.report_parts.c.digest).where(t.report_parts.c.digest == name)).first():
                return
        insert = (sqlite if self.engine.dialect.name == "sqlite" else postgresql).insert(t.report_parts)
        row = insert.values(digest=name, deflated=deflated(part)).on_conflict_do_nothing()
        with writing(self.engine) as connection:
            connection.execute(row)

    def _part(self, connection: Connection, name: str) -> CommonPart:
        """Return a common part; those that were asked for last stay in memory."""
        part = self._parts.get(name)
        if part is None:
            query = select(t.report_parts.c.deflated).where(t.report_parts.c.digest == name)
            part = CommonPart.read(bytes(connection.execute(query).scalar_one()))
            self._parts = dict([*self._parts.items()][1 - _KEPT_PARTS :]) | {name: part}
        return part

    def set_report_failure(self, sweep_id: str, reason: str) -> None:
        """Note why a sweep's report could not be built. The next report that is kept clears it."""
        with writing(self.engine) as connection:
            _set_failure(connection, sweep_id, reason)

    def report_failure(self, sweep_id: str) -> str | None:
        """Return why the last try to build a sweep's report failed; None if it did not."""
        with self._read() as connection:
            return one_sweep(connection, sweep_id)["report_failure"]

    def get_report(self, sweep_id: str, format_: str) -> bytes:
        """Return a sweep's final report.

        Raises: NotFound; NotReady, if it has not been built yet.
        """
        kept = self.find_report(sweep_id, format_)
        if kept is None or kept.interim:
            raise NotReady(f"the report of sweep {sweep_id} has not been built yet")
        return kept.content

    def find_report(self, sweep_id: str, format_: str) -> KeptReport | None:
        """Return the report that stands: the final one, or while the sweep runs the interim one.

        Raises: NotFound.
        """
        r = t.reports.c
        query = select(t.reports).where(r.sweep_id == sweep_id, r.format == format_)
        with self._read() as connection:
            state = SweepState(one_sweep(connection, sweep_id)["state"])
            row = connection.execute(query if state.has_interim_report else query.where(~r.interim)).one_or_none()
            if row is None:
                return None
            part = None if row.part is None else self._part(connection, row.part)
        return KeptReport(Packed(bytes(row.content), row.gzipped, row.part_at), part, row.interim, row.created_at)

    def answered(self, before: str) -> list[tuple[str, dict[str, Any]]]:
        """Return the id and the base of each sweep with a final report that was submitted earlier, oldest first.

        Args:
            before: id of a sweep.
        """
        s, r = t.sweeps.c, t.reports.c
        reported = exists().where(r.sweep_id == s.id, r.format == "verdict", ~r.interim)
        query = select(s.id, s.spec["training"]).where(s.id < before, reported).order_by(s.id)
        with self._read() as connection:
            return [(id_, base) for id_, base in connection.execute(query)]

    def report_digest(self, sweep_id: str) -> str | None:
        """Return the digest of the inputs of the final report, if there is one."""
        r = t.reports.c
        query = select(r.inputs_digest).where(r.sweep_id == sweep_id, ~r.interim).limit(1)
        with self._read() as connection:
            return connection.execute(query).scalar_one_or_none()

    def next_unreported(self, not_now: Collection[str]) -> str | None:
        """Return the sweep that ended last of those without a final report: failed and cancelled ones.

        Args:
            not_now: ids of sweeps that are left out.
        """
        s, ended = t.sweeps.c, [state.value for state in SweepState if state.is_over]
        reported = exists().where(t.reports.c.sweep_id == s.id, ~t.reports.c.interim)
        deleted = exists().where(t.deletions.c.sweep_id == s.id)
        query = select(s.id).where(s.state.in_(ended), ~reported, ~deleted, s.id.not_in(list(not_now)))
        with self._read() as connection:
            return connection.execute(query.order_by(s.ended_at.desc()).limit(1)).scalar_one_or_none()

    def want_report(self, sweep_id: str) -> None:
        """Note that somebody wants an interim report, or a newer one."""
        s = t.sweeps.c
        with self._read() as connection:  # a page that asks every second must not delay trials' writes
            if connection.execute(select(s.report_wanted).where(s.id == sweep_id)).scalar_one_or_none():
                return
        with writing(self.engine) as connection:
            connection.execute(update(t.sweeps).where(s.id == sweep_id).values(report_wanted=True))

    def take_wanted_report(self, not_now: Collection[str]) -> str | None:
        """Return a running sweep whose report somebody wants, and clear the request, for the caller builds it.

        Args:
            not_now: ids of sweeps that must wait.
        """
        s, interim = t.sweeps.c, [state.value for state in SweepState if state.has_interim_report]
        wanted = select(s.id).where(s.report_wanted, s.state.in_(interim), s.id.not_in(list(not_now)))
        with self._read() as connection:
            if connection.execute(wanted.limit(1)).scalar_one_or_none() is None:
                return None
        with writing(self.engine) as connection:
            first = wanted.order_by(s.id).limit(1).with_for_update(skip_locked=True)
            sweep_id = connection.execute(first).scalar_one_or_none()
            connection.execute(update(t.sweeps).where(s.id == sweep_id).values(report_wanted=False))
            return sweep_id


def _set_failure(connection: Connection, sweep_id: str, reason: str | None) -> None:
    connection.execute(update(t.sweeps).where(t.sweeps.c.id == sweep_id).values(report_failure=reason))
