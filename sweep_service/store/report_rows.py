"""Stored reports, each with the digest of its inputs, and requests for interim ones."""

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, exists, select, update

from sweep_service.errors import NotReady
from sweep_service.store import tables as t
from sweep_service.store.base import Rows, one_sweep
from sweep_service.store.database import writing
from sweep_service.sweep.records import SweepState


@dataclass(frozen=True)
class KeptReport:
    """A report in one format."""

    content: bytes
    interim: bool
    """Whether the sweep was still running when the report was built."""
    created_at: float


class ReportRows(Rows):
    """Reports in their formats (html, json, md, …). A sweep has interim ones while it runs, then a final one."""

    def put_report(self, sweep_id: str, inputs_digest: str, contents: Mapping[str, bytes]) -> None:
        """Keep a final report; the sweep's earlier ones are dropped. The same digest again is no change."""
        r = t.reports.c
        with writing(self.engine) as connection:
            earlier = (r.inputs_digest != inputs_digest) | r.interim
            connection.execute(t.reports.delete().where(r.sweep_id == sweep_id, earlier))
            known = select(r.format).where(r.sweep_id == sweep_id, r.inputs_digest == inputs_digest)
            present = set(connection.execute(known).scalars())
            row = {"sweep_id": sweep_id, "inputs_digest": inputs_digest, "created_at": time.time()}
            for format_, content in contents.items():
                if format_ not in present:
                    connection.execute(t.reports.insert().values(row | {"format": format_, "content": content}))
            _set_failure(connection, sweep_id, None)

    def put_interim_report(self, sweep_id: str, inputs_digest: str, contents: Mapping[str, bytes]) -> None:
        """Keep an interim report in place of the one before; no change once the sweep has stopped running."""
        row = {"sweep_id": sweep_id, "inputs_digest": inputs_digest, "created_at": time.time(), "interim": True}
        with writing(self.engine) as connection:
            if not SweepState(one_sweep(connection, sweep_id, lock=True)["state"]).has_interim_report:
                return
            connection.execute(t.reports.delete().where(t.reports.c.sweep_id == sweep_id))
            for format_, content in contents.items():
                connection.execute(t.reports.insert().values(row | {"format": format_, "content": content}))
            _set_failure(connection, sweep_id, None)

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
        query = select(r.content, r.interim, r.created_at).where(r.sweep_id == sweep_id, r.format == format_)
        with self._read() as connection:
            state = SweepState(one_sweep(connection, sweep_id)["state"])
            row = connection.execute(query if state.has_interim_report else query.where(~r.interim)).one_or_none()
        return None if row is None else KeptReport(bytes(row.content), row.interim, row.created_at)

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
        query = select(s.id).where(s.state.in_(ended), ~reported, s.id.not_in(list(not_now)))
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
