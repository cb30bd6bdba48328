"""Built reports, kept by the digest of what they were built from."""

import time
from collections.abc import Mapping

from sqlalchemy import exists, select

from sweep_service.errors import NotReady
from sweep_service.records import SweepState
from sweep_service.store import tables as t
from sweep_service.store.base import Rows, one_sweep
from sweep_service.store.engine import writing


class ReportRows(Rows):
    """Reports in their formats (html, json, md, yaml)."""

    def put_report(self, sweep_id: str, inputs_digest: str, contents: Mapping[str, bytes]) -> None:
        """Keep a report; the sweep's earlier ones are dropped. The same digest again is no change."""
        r = t.reports.c
        with writing(self.engine) as connection:
            connection.execute(t.reports.delete().where(r.sweep_id == sweep_id, r.inputs_digest != inputs_digest))
            known = select(r.format).where(r.sweep_id == sweep_id, r.inputs_digest == inputs_digest)
            present = set(connection.execute(known).scalars())
            row = {"sweep_id": sweep_id, "inputs_digest": inputs_digest, "created_at": time.time()}
            for format_, content in contents.items():
                if format_ not in present:
                    connection.execute(t.reports.insert().values(row | {"format": format_, "content": content}))

    def get_report(self, sweep_id: str, format_: str) -> bytes:
        """Return a sweep's report.

        Raises: NotFound; NotReady, if none has been built yet.
        """
        r = t.reports.c
        query = select(r.content).where(r.sweep_id == sweep_id, r.format == format_).order_by(r.created_at.desc())
        with self._read() as connection:
            one_sweep(connection, sweep_id)
            content = connection.execute(query.limit(1)).scalar_one_or_none()
        if content is None:
            raise NotReady(f"the report of sweep {sweep_id} has not been built yet")
        return bytes(content)

    def report_digest(self, sweep_id: str) -> str | None:
        """Return the digest of the inputs of the report that is kept, if there is one."""
        r = t.reports.c
        query = select(r.inputs_digest).where(r.sweep_id == sweep_id).order_by(r.created_at.desc()).limit(1)
        with self._read() as connection:
            return connection.execute(query).scalar_one_or_none()

    def unreported(self) -> list[str]:
        """Return the sweeps that have ended and have no report, oldest first: failed and cancelled ones."""
        s, ended = t.sweeps.c, [state.value for state in SweepState if state.terminal]
        reported = exists().where(t.reports.c.sweep_id == s.id)
        with self._read() as connection:
            return list(connection.execute(select(s.id).where(s.state.in_(ended), ~reported).order_by(s.id)).scalars())
