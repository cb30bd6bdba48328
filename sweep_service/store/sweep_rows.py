"""Sweeps: their rows, states, leases and events."""

import time
from collections.abc import Collection, Sequence
from datetime import UTC, datetime

from sqlalchemy import ColumnElement, Connection, RowMapping, and_, func, or_, select, update
from sqlalchemy.exc import IntegrityError

from sweep_service.errors import Conflict, IdempotencyKeyReused, SweepDeleted
from sweep_service.store import tables as t
from sweep_service.store.base import Fence, Rows, append_event, as_sweep, change, insert_records, of_sweep, one_sweep
from sweep_service.store.database import now_for_leases, writing
from sweep_service.store.deletion_rows import deleted_with_key
from sweep_service.store.trial_rows import end_waiting
from sweep_service.sweep.endings import Ending
from sweep_service.sweep.records import Config, DesiredState, Event, Sweep, SweepState, Trial
from sweep_service.sweep.state_table import SWEEP_LIFE
from sweep_service.sweep.sweep_filter import ALL_SWEEPS, SweepFilter


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
            idempotency: a key chosen by the client, and the fingerprint of its request.
        Returns: the stored sweep; with a key that was used before for the same request, that earlier sweep.
        Raises: IdempotencyKeyReused, if the key was used for another request; SweepDeleted, if its sweep is deleted.
        """
        try:
            with writing(self.engine) as connection:
                row = sweep.model_dump(mode="json") | {"last_seq": 0, "asks_since": sweep.created_at}
                connection.execute(t.sweeps.insert().values(row))
                if idempotency:
                    key, fingerprint = idempotency
                    request = {"key": key, "fingerprint": fingerprint, "sweep_id": sweep.id, "created_at": time.time()}
                    connection.execute(t.idempotency_keys.insert().values(request))
                    _refuse_deleted(connection, key)  # after the insertion, so that no deletion comes between
                insert_records(connection, t.configs, configs)
                insert_records(connection, t.trials, trials)
                append_event(connection, sweep.id, "sweep.created", {"name": sweep.name, "trials": len(trials)})
        except IntegrityError:
            if idempotency is None:
                raise
            key, fingerprint = idempotency
            keys = t.idempotency_keys
            with self._read() as connection:
                _refuse_deleted(connection, key)
                earlier = connection.execute(select(keys).where(keys.c.key == key)).one_or_none()
            if earlier is None:
                raise
            if earlier.fingerprint != fingerprint:
                refusal = f"the Idempotency-Key {key!r} was used with another request; use a new key"
                raise IdempotencyKeyReused(refusal) from None
            return self.get_sweep(earlier.sweep_id)
        return sweep

    def get_sweep(self, sweep_id: str) -> Sweep:
        """Return a sweep. Raises: NotFound."""
        with self._read() as connection:
            return as_sweep(one_sweep(connection, sweep_id))

    def list_sweeps(self, limit: int, before: str | None = None, only: SweepFilter = ALL_SWEEPS) -> list[Sweep]:
        """Return sweeps, newest first.

        Args:
            before: the last id of the page before.
            only: list only sweeps that meet these conditions.
        """
        s = t.sweeps.c
        query = select(t.sweeps).order_by(s.id.desc()).limit(limit)
        if before is not None:
            query = query.where(s.id < before)
        if only.states:
            query = query.where(s.state.in_([state.value for state in only.states]))
        for name, text in only.labels:
            query = query.where(s.spec["labels", name].as_string() == text)
        if only.text:
            query = query.where(or_(*(column.icontains(only.text, autoescape=True) for column in (s.name, s.id))))
        if only.created_after is not None:
            query = query.where(s.created_at >= only.created_after)
        if only.created_before is not None:
            query = query.where(s.created_at < only.created_before)
        return self._sweeps(query)

    def validated_on(self, benchmarks: Collection[str], before: str) -> list[Sweep]:
        """Return the sweeps that choose their configs by one of these benchmarks, oldest first.

        Args:
            before: id of a sweep; only sweeps that were submitted before it, and that have begun, are returned.
        """
        s = t.sweeps.c
        benchmark = s.spec["training", "task", "validation", "benchmark"].as_string()
        query = select(t.sweeps).where(s.id < before, s.started_at.is_not(None), benchmark.in_(benchmarks))
        query = query.where(s.spec["trainer"].as_string().is_(None))  # other settings may have these names
        return self._sweeps(query.order_by(s.id))

    def request_cancel(self, sweep_id: str, by: str | None = None) -> Sweep:
        """Note that the user wants the sweep stopped. Repeating it changes nothing.

        A sweep that has never run, and that nobody holds, is cancelled here and now: no runner needs to be started for
        that. One that has trained ends with a new report instead. A paused one is queued, for a worker to end it.

        Raises: NotFound; Conflict, if the sweep has ended otherwise.
        """
        with writing(self.engine) as connection:
            row = one_sweep(connection, sweep_id, lock=True)
            state = SweepState(row["state"])
            if state.is_over and state is not SweepState.CANCELLED:
                raise Conflict(f"sweep {sweep_id} has already ended as {state}; there is nothing to cancel")
            _wish(connection, row, DesiredState.CANCEL, "sweep.cancel_requested", by)
            if state is SweepState.PAUSED:
                _change_state(connection, Fence(sweep_id, row["epoch"]), SweepState.QUEUED, None)
            elif row["added_benchmarks"]:
                _leave_unclaimed(connection, row, SweepState.FINALIZING)
            elif row["started_at"] is None:
                _leave_unclaimed(connection, row, SweepState.CANCELLED)
        return self.get_sweep(sweep_id)

    def request_pause(self, sweep_id: str, by: str | None = None) -> Sweep:
        """Note that the user wants the sweep to stop until it is resumed. Repeating it changes nothing.

        A sweep that waits, and that nobody holds, is paused here and now.

        Raises: NotFound; Conflict, if no trial of it can begin or go on any more.
        """
        with writing(self.engine) as connection:
            row = one_sweep(connection, sweep_id, lock=True)
            if not SweepState(row["state"]).trials_may_change:
                raise Conflict(f"sweep {sweep_id} is {row['state']}: its trials have ended; there is nothing to pause")
            if row["desired_state"] == DesiredState.CANCEL:
                raise Conflict(f"sweep {sweep_id} is being cancelled; it cannot be paused any more")
            _wish(connection, row, DesiredState.PAUSE, "sweep.pause_requested", by)
            _leave_unclaimed(connection, row, SweepState.PAUSED)
        return self.get_sweep(sweep_id)

    def request_resume(self, sweep_id: str, by: str | None = None) -> Sweep:
        """Note that a sweep that is paused, or is being paused, is to go on. No change for a sweep that runs.

        Raises: NotFound; Conflict, if it has ended or is to end.
        """
        with writing(self.engine) as connection:
            row = one_sweep(connection, sweep_id, lock=True)
            state = SweepState(row["state"])
            if state.is_over:
                raise Conflict(f"sweep {sweep_id} has ended as {state}; only a paused one can be resumed")
            if row["desired_state"] == DesiredState.CANCEL:
                raise Conflict(f"sweep {sweep_id} is being cancelled; it cannot be resumed any more")
            _wish(connection, row, DesiredState.RUN, "sweep.resume_requested", by)
            if state is SweepState.PAUSED:
                _change_state(connection, Fence(sweep_id, row["epoch"]), SweepState.QUEUED, None)
        return self.get_sweep(sweep_id)

    def claim_final_report(self, holder: str, lease_s: float) -> Sweep | None:
        """Take over the oldest sweep that needs its final report, as `claim` does for those that need a runner."""
        needing = [state.value for state in SweepState if state.needs_final_report]
        return self._claim(holder, lease_s, t.sweeps.c.state.in_(needing))

    def _claim(
        self, holder: str, lease_s: float, wanted: ColumnElement[bool], *order: ColumnElement[int]
    ) -> Sweep | None:
        """Take over the first sweep in an order that no live lease holds; of equals the oldest."""
        s = t.sweeps.c
        with writing(self.engine) as connection:
            now, clock = now_for_leases(connection)
            query = select(s.id).where(wanted, is_free(now, clock)).order_by(*order, s.id).limit(1)
            sweep_id = connection.execute(query.with_for_update(skip_locked=True)).scalar_one_or_none()
            if sweep_id is None:
                return None
            lease = {"lease_until": now + lease_s, "lease_clock": clock, "lease_holder": holder}
            # An earlier runner may have left its wish.
            change(connection, t.sweeps, sweep_id, epoch=s.epoch + 1, waits_for=None, **lease)
            append_event(connection, sweep_id, "sweep.claimed", {"holder": holder})
            return as_sweep(one_sweep(connection, sweep_id))

    def renew_lease(self, fence: Fence, lease_s: float) -> None:
        """Hold the sweep for `lease_s` more seconds."""
        with self._fenced(fence) as connection:
            now, clock = now_for_leases(connection)
            change(connection, t.sweeps, fence.sweep_id, lease_until=now + lease_s, lease_clock=clock)

    def is_held(self, sweep_id: str) -> bool:
        """True if a live lease holds a sweep, even if it has just ended; false if there is no such sweep."""
        s = t.sweeps.c
        with self._read() as connection:
            held = and_(s.id == sweep_id, ~is_free(*now_for_leases(connection)))
            return connection.execute(select(s.id).where(held)).one_or_none() is not None

    def has_lease(self, fence: Fence) -> bool:
        """True if this epoch's lease holds. It waits for other writers: the lease's renewal may be waiting, too."""
        s = t.sweeps.c
        with writing(self.engine) as connection:
            held = and_(s.id == fence.sweep_id, s.epoch == fence.epoch, ~is_free(*now_for_leases(connection)))
            return connection.execute(select(s.id).where(held)).one_or_none() is not None

    def release_lease(self, fence: Fence) -> None:
        """Let the sweep go at once, because its runner has ended. Does nothing if another runner has taken over."""
        with writing(self.engine) as connection:
            own = update(t.sweeps).where(t.sweeps.c.id == fence.sweep_id, t.sweeps.c.epoch == fence.epoch)
            connection.execute(own.values(lease_until=None))

    def set_sweep_state(
        self, fence: Fence, state: SweepState, message: str | None = None, generation: int | None = None
    ) -> None:
        """Move the sweep to another state, if its runner or worker still holds it. The same state is no change.

        Trials that still wait are cancelled when trials may not change any more. Instead of PAUSED the sweep is QUEUED
        if the user no longer wishes a pause.

        Args:
            generation: the sweep's generation that the caller has done; if there is another by now, it is QUEUED.
        Raises: Conflict, if the transition is not allowed.
        """
        with self._fenced(fence) as connection:
            if generation is not None and of_sweep(connection, fence.sweep_id, t.sweeps.c.generation) != generation:
                state, message = SweepState.QUEUED, None
            _change_state(connection, fence, state, message)

    def say_what_delays(self, fence: Fence, message: str | None) -> None:
        """Note why nothing new begins in a running sweep, None if it goes on. The same words are no change."""
        with self._fenced(fence) as connection:
            if of_sweep(connection, fence.sweep_id, t.sweeps.c.message) != message:
                change(connection, t.sweeps, fence.sweep_id, message=message)
                append_event(connection, fence.sweep_id, "sweep.delayed", {"message": message})

    def list_events(self, sweep_id: str, after: int = 0, limit: int = 1000, types: Collection[str] = ()) -> list[Event]:
        """Return events with a number above `after`, in order; of these types only, if any are given."""
        events = t.events
        query = select(events).where(events.c.sweep_id == sweep_id, events.c.seq > after)
        if types:
            query = query.where(events.c.type.in_(types))
        return self._records(Event, query.order_by(events.c.seq).limit(limit), sweep_id)

    def last_event(self, sweep_id: str) -> int:
        """Return the number of a sweep's last event."""
        return self._value(select(func.max(t.events.c.seq)).where(t.events.c.sweep_id == sweep_id)) or 0


def _refuse_deleted(connection: Connection, key: str) -> None:
    """Refuse an idempotency key whose sweep is deleted, for nobody who repeats a request means a second sweep.

    Raises: SweepDeleted.
    """
    if (deletion := deleted_with_key(connection, key)) is not None:
        asked = datetime.fromtimestamp(deletion.asked_at, UTC).strftime("%Y-%m-%d %H:%M UTC")
        raise SweepDeleted(
            f"the Idempotency-Key {key!r} submitted sweep {deletion.sweep_id} ({deletion.name}), which somebody wanted "
            f"deleted on {asked}; to run it again, submit it with a new key"
        )


def is_free(now: float, clock: str) -> ColumnElement[bool]:
    """Return the condition that no live lease holds a sweep, by the clock of leases."""
    s = t.sweeps.c
    return or_(s.lease_until.is_(None), s.lease_clock != clock, s.lease_until < now)


def pause(connection: Connection, sweep_id: str, by: str) -> None:
    """Note that a sweep that runs is to stop until it is resumed, unless it is to be cancelled."""
    row = one_sweep(connection, sweep_id, lock=True)
    if row["desired_state"] == DesiredState.RUN:
        _wish(connection, row, DesiredState.PAUSE, "sweep.pause_requested", by)


def _wish(connection: Connection, row: RowMapping, wish: DesiredState, event: str, by: str | None) -> None:
    """Note the user's wish for a sweep, and the token of the user, unless that wish is noted already."""
    if row["desired_state"] != wish:
        change(connection, t.sweeps, row["id"], desired_state=wish)
        append_event(connection, row["id"], event, {"by": by})


def _leave_unclaimed(connection: Connection, row: RowMapping, state: SweepState) -> None:
    """Move a sweep that waits to another state, if nobody holds it.

    Its epoch rises as in a claim, so that whoever held it once is refused.
    """
    s = t.sweeps.c
    unclaimed = and_(s.id == row["id"], s.state == SweepState.QUEUED.value, is_free(*now_for_leases(connection)))
    taken = update(t.sweeps).where(unclaimed).values(epoch=s.epoch + 1, lease_until=None)
    if connection.execute(taken).rowcount:
        _change_state(connection, Fence(row["id"], row["epoch"] + 1), state, None)


def _change_state(connection: Connection, fence: Fence, state: SweepState, message: str | None) -> None:
    row = one_sweep(connection, fence.sweep_id)
    before = SweepState(row["state"])
    if state is SweepState.PAUSED and row["desired_state"] != DesiredState.PAUSE:
        state = SweepState.QUEUED  # the user has changed their mind meanwhile
    if state is before:
        return
    if state not in SWEEP_LIFE[before].next:
        raise Conflict(f"sweep {fence.sweep_id} cannot go from {before} to {state}")
    values: dict[str, object] = {"state": state, "message": message}
    if row["started_at"] is None and state is SweepState.RUNNING:
        values["started_at"] = time.time()
    if state.is_over:
        values["ended_at"] = time.time()
    if state.needs_runner and not before.needs_runner:
        values["asks_since"] = time.time()
    if not state.trials_may_change:
        end_waiting(connection, fence, Ending.CANCELLED)
    change(connection, t.sweeps, fence.sweep_id, **values)
    append_event(connection, fence.sweep_id, "sweep.state_changed", {"state": state, "message": message})
