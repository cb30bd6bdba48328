"""Sweeps: their rows, states, leases and events."""

import time
from collections.abc import Sequence

from sqlalchemy import ColumnElement, Connection, and_, func, or_, select, update
from sqlalchemy.exc import IntegrityError

from sweep_service.errors import Conflict, IdempotencyKeyReused
from sweep_service.store import tables as t
from sweep_service.store.base import Fence, Rows, append_event, insert_records, one_sweep
from sweep_service.store.database import now_for_leases, writing
from sweep_service.store.trial_rows import end_waiting
from sweep_service.sweep.endings import Ending
from sweep_service.sweep.records import Config, DesiredState, Event, Sweep, SweepState, Trial

TRANSITIONS: dict[SweepState, frozenset[SweepState]] = {
    SweepState.QUEUED: frozenset({SweepState.RUNNING, SweepState.CANCELLED, SweepState.FAILED}),
    SweepState.RUNNING: frozenset({SweepState.FINALIZING, SweepState.CANCELLED, SweepState.FAILED}),
    SweepState.FINALIZING: frozenset({SweepState.SUCCEEDED, SweepState.CANCELLED, SweepState.FAILED}),
    SweepState.SUCCEEDED: frozenset(),
    SweepState.FAILED: frozenset(),
    SweepState.CANCELLED: frozenset(),
}
"""States to which a sweep may go from each of its states."""


class SweepRows(Rows):
    """The sweeps with their leases and events."""

    def create_sweep(
        self,
        sweep: Sweep,
        configs: Sequence[Config],
        trials: Sequence[Trial],
        idempotency: tuple[str, str] | None = None,
    ) -> Sweep:
        """Store a sweep with its first configs and trials, all or nothing.

        Args:
            sweep, configs, trials: what to store.
            idempotency: a key chosen by the client, and the fingerprint of its request.
        Returns: the stored sweep; with a key that was used before for the same request, that earlier sweep.
        Raises: IdempotencyKeyReused, if the key was used for another request.
        """
        try:
            with writing(self.engine) as connection:
                row = sweep.model_dump(mode="json")
                connection.execute(t.sweeps.insert().values(row | {"last_seq": 0}))
                if idempotency:
                    key, fingerprint = idempotency
                    connection.execute(
                        t.idempotency_keys.insert().values(
                            key=key, fingerprint=fingerprint, sweep_id=sweep.id, created_at=time.time()
                        )
                    )
                insert_records(connection, t.configs, configs)
                insert_records(connection, t.trials, trials)
                append_event(connection, sweep.id, "sweep.created", {"name": sweep.name, "trials": len(trials)})
        except IntegrityError:
            earlier = self._replayed(idempotency)
            if earlier is None:
                raise
            return earlier
        return sweep

    def _replayed(self, idempotency: tuple[str, str] | None) -> Sweep | None:
        if idempotency is None:
            return None
        key, fingerprint = idempotency
        keys = t.idempotency_keys
        with self._read() as connection:
            row = connection.execute(select(keys).where(keys.c.key == key)).mappings().one_or_none()
        if row is None:
            return None
        if row["fingerprint"] != fingerprint:
            raise IdempotencyKeyReused(f"the Idempotency-Key {key!r} was used with another request; use a new key")
        return self.get_sweep(row["sweep_id"])

    def get_sweep(self, sweep_id: str) -> Sweep:
        """Return a sweep.

        Raises: NotFound.
        """
        with self._read() as connection:
            return Sweep.model_validate(dict(one_sweep(connection, sweep_id)))

    def list_sweeps(
        self,
        limit: int,
        before: str | None = None,
        states: Sequence[SweepState] = (),
        labels: Sequence[tuple[str, str]] = (),
    ) -> list[Sweep]:
        """Return sweeps, newest first.

        Args:
            before: the last id of the page before.
            states: list only sweeps in one of these states.
            labels: list only sweeps that have all of these labels, given as names and texts.
        """
        query = select(t.sweeps).order_by(t.sweeps.c.id.desc()).limit(limit)
        if before is not None:
            query = query.where(t.sweeps.c.id < before)
        if states:
            query = query.where(t.sweeps.c.state.in_([state.value for state in states]))
        for name, text in labels:
            query = query.where(t.sweeps.c.spec["labels", name].as_string() == text)
        return self._records(Sweep, query)

    def request_cancel(self, sweep_id: str) -> Sweep:
        """Note that the user wants the sweep stopped. Repeating it changes nothing.

        A sweep that has never run, and that nobody holds, is cancelled here and now: no runner needs to be started for
        that. Its epoch rises as in a claim, so that whoever held it once is refused.

        Raises: NotFound; Conflict, if the sweep has ended otherwise.
        """
        s = t.sweeps.c
        with writing(self.engine) as connection:
            row = one_sweep(connection, sweep_id, lock=True)
            state = SweepState(row["state"])
            if state.is_over and state is not SweepState.CANCELLED:
                raise Conflict(f"sweep {sweep_id} has already ended as {state}; there is nothing to cancel")
            if row["desired_state"] != DesiredState.CANCEL:
                wish = {"desired_state": DesiredState.CANCEL.value}
                connection.execute(update(t.sweeps).where(s.id == sweep_id).values(wish))
                append_event(connection, sweep_id, "sweep.cancel_requested", {})
            nobodys = and_(s.state == SweepState.QUEUED.value, _is_free(*now_for_leases(connection)))
            taken = update(t.sweeps).where(s.id == sweep_id, nobodys).values(epoch=s.epoch + 1, lease_until=None)
            if connection.execute(taken).rowcount:
                _change_state(connection, Fence(sweep_id, row["epoch"] + 1), SweepState.CANCELLED, None)
        return self.get_sweep(sweep_id)

    def claim(self, holder: str, lease_s: float, *, to_cancel: bool = False) -> Sweep | None:
        """Take over the oldest sweep that needs a runner and that no live lease holds; this raises its epoch by one.

        Args:
            holder: name of the new holder, for people to read.
            lease_s: seconds until the lease ends unless it is renewed.
            to_cancel: take only a sweep that the user wants stopped.
        """
        wanted = t.sweeps.c.state.in_([state.value for state in SweepState if state.needs_runner])
        if to_cancel:
            wanted &= t.sweeps.c.desired_state == DesiredState.CANCEL.value
        return self._claim(holder, lease_s, wanted)

    def claim_final_report(self, holder: str, lease_s: float) -> Sweep | None:
        """Take over the oldest sweep that needs its final report, as `claim` does for those that need a runner."""
        needing = [state.value for state in SweepState if state.needs_final_report]
        return self._claim(holder, lease_s, t.sweeps.c.state.in_(needing))

    def _claim(self, holder: str, lease_s: float, wanted: ColumnElement[bool]) -> Sweep | None:
        s = t.sweeps.c
        with writing(self.engine) as connection:
            now, clock = now_for_leases(connection)
            query = select(s.id).where(wanted, _is_free(now, clock)).order_by(s.id).limit(1)
            sweep_id = connection.execute(query.with_for_update(skip_locked=True)).scalar_one_or_none()
            if sweep_id is None:
                return None
            lease = {"lease_until": now + lease_s, "lease_clock": clock, "lease_holder": holder}
            connection.execute(update(t.sweeps).where(s.id == sweep_id).values(epoch=s.epoch + 1, **lease))
            append_event(connection, sweep_id, "sweep.claimed", {"holder": holder})
            return Sweep.model_validate(dict(one_sweep(connection, sweep_id)))

    def renew_lease(self, fence: Fence, lease_s: float) -> None:
        """Hold the sweep for `lease_s` more seconds.

        Raises: StaleEpoch.
        """
        with self._fenced(fence) as connection:
            now, clock = now_for_leases(connection)
            lease = {"lease_until": now + lease_s, "lease_clock": clock}
            connection.execute(update(t.sweeps).where(t.sweeps.c.id == fence.sweep_id).values(lease))

    def release_lease(self, fence: Fence) -> None:
        """Let the sweep go at once, because its runner has ended. Does nothing if another runner has taken over."""
        with writing(self.engine) as connection:
            own = update(t.sweeps).where(t.sweeps.c.id == fence.sweep_id, t.sweeps.c.epoch == fence.epoch)
            connection.execute(own.values(lease_until=None))

    def set_sweep_state(self, fence: Fence, state: SweepState, message: str | None = None) -> None:
        """Move the sweep to another state, if its runner or worker still holds it. The same state is no change.

        Trials that still wait when the sweep is over are cancelled with it.

        Raises: StaleEpoch; Conflict, if the transition is not allowed.
        """
        with self._fenced(fence) as connection:
            _change_state(connection, fence, state, message)

    def list_events(self, sweep_id: str, after: int = 0, limit: int = 1000) -> list[Event]:
        """Return events with a number above `after`, in order."""
        events = t.events
        query = select(events).where(events.c.sweep_id == sweep_id, events.c.seq > after)
        return self._records(Event, query.order_by(events.c.seq).limit(limit), sweep_id)

    def last_event(self, sweep_id: str) -> int:
        """Return the number of a sweep's last event."""
        query = select(func.max(t.events.c.seq)).where(t.events.c.sweep_id == sweep_id)
        with self._read() as connection:
            return connection.execute(query).scalar_one() or 0


def _is_free(now: float, clock: str) -> ColumnElement[bool]:
    """Return the condition that no live lease holds a sweep, by the clock of leases."""
    s = t.sweeps.c
    return or_(s.lease_until.is_(None), s.lease_clock != clock, s.lease_until < now)


def _change_state(connection: Connection, fence: Fence, state: SweepState, message: str | None) -> None:
    row = one_sweep(connection, fence.sweep_id)
    before = SweepState(row["state"])
    if state is before:
        return
    if state not in TRANSITIONS[before]:
        raise Conflict(f"sweep {fence.sweep_id} cannot go from {before} to {state}")
    values: dict[str, object] = {"state": state.value, "message": message}
    if row["started_at"] is None and state is SweepState.RUNNING:
        values["started_at"] = time.time()
    if state.is_over:
        values["ended_at"] = time.time()
        end_waiting(connection, fence, Ending.CANCELLED)
    connection.execute(update(t.sweeps).where(t.sweeps.c.id == fence.sweep_id).values(values))
    append_event(connection, fence.sweep_id, "sweep.state_changed", {"state": state, "message": message})
