"""Configs, trials, attempts, and the events of their trainers: curves, samples, checkpoints.

The table of trials also holds the evaluations, which are handed out and tried again in the same way; `evaluation_rows`
makes and reads them. Methods that are named after trials leave them out.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, and_, func, select, update

from sweep_service.errors import Conflict, NotFound
from sweep_service.store import tables as t
from sweep_service.store.base import (
    EVALUATION_STAGE,
    IS_TRAINING,
    Fence,
    Rows,
    append_event,
    change,
    insert_records,
    is_row_of,
    one_sweep,
)
from sweep_service.store.database import writing
from sweep_service.store.ingest import store_measurements, store_training
from sweep_service.sweep.budget import Spent, WorkTime
from sweep_service.sweep.endings import CRASHES, MEANINGS, Ending, Stop, TrialState, full_message, state_after
from sweep_service.sweep.records import (
    Attempt,
    Checkpoint,
    Config,
    DesiredState,
    Judgement,
    Stage,
    Trial,
    Work,
)


class TrialRows(Rows):
    """The configs, trials and attempts."""

    def add_configs(self, fence: Fence, configs: Sequence[Config], trials: Sequence[Trial]) -> None:
        """Store new configs (a suggestion is stored before anyone acts on it) and trials.

        A config that the sweep has already gets the union of both roles.
        """
        with self._fenced(fence) as connection:
            c = t.configs.c
            for config in configs:
                key = and_(c.sweep_id == fence.sweep_id, c.id == config.id)
                present = connection.execute(select(c.roles).where(key)).scalar_one_or_none()
                if present is None:
                    insert_records(connection, t.configs, [config])
                    data = {"config_id": config.id, "roles": config.roles, "params": config.params}
                    append_event(connection, fence.sweep_id, "config.added", data)
                elif missing := [role for role in config.roles if role not in present]:
                    connection.execute(update(t.configs).where(key).values(roles=[*present, *missing]))
            insert_records(connection, t.trials, trials)
            if trials:
                data = {"trials": len(trials), "stages": sorted({trial.stage for trial in trials})}
                append_event(connection, fence.sweep_id, "trials.added", data)

    def list_configs(self, sweep_id: str, after: int = -1, limit: int | None = None) -> list[Config]:
        """Return a sweep's configs by number, from the one after `after`."""
        query = select(t.configs).where(t.configs.c.sweep_id == sweep_id, t.configs.c.number > after)
        configs = self._records(Config, query.order_by(t.configs.c.number).limit(limit), sweep_id)
        with self._read() as connection:
            dropped = dropped_configs(connection, sweep_id)
        return [one.model_copy(update={"dropped": dropped[one.id]}) if one.id in dropped else one for one in configs]

    def list_trials(
        self, sweep_id: str, after: int = -1, limit: int | None = None, states: Sequence[TrialState] = ()
    ) -> list[Trial]:
        """Return a sweep's trials by number, from the one after `after`."""
        query = select(t.trials).where(t.trials.c.sweep_id == sweep_id, IS_TRAINING, t.trials.c.number > after)
        if states:
            query = query.where(t.trials.c.state.in_([state.value for state in states]))
        return self._records(Trial, query.order_by(t.trials.c.number).limit(limit), sweep_id)

    def get_trial(self, trial_id: str) -> Trial:
        """Return a trial. Raises: NotFound."""
        with self._read() as connection:
            return Trial.model_validate(dict(_one_trial(connection, trial_id)))

    def get_work(self, work_id: str) -> Work:
        """Return a trial or an evaluation with the fields that both have. Raises: NotFound."""
        with self._read() as connection:
            return Work.model_validate(dict(_one_trial(connection, work_id)))

    def count_trials(self, sweep_ids: Sequence[str]) -> dict[str, dict[tuple[Stage, TrialState], int]]:
        """Return the number of trials by sweep, and by stage and state; those without trials are left out."""
        c = t.trials.c
        counted = select(c.sweep_id, c.stage, c.state, func.count()).where(c.sweep_id.in_(sweep_ids), IS_TRAINING)
        counts: dict[str, dict[tuple[Stage, TrialState], int]] = {sweep_id: {} for sweep_id in sweep_ids}
        for sweep_id, stage, state, number in self._rows(counted.group_by(c.sweep_id, c.stage, c.state)):
            counts[sweep_id][Stage(stage), TrialState(state)] = number
        return counts

    def list_attempts(self, sweep_id: str, running_only: bool = False) -> list[Attempt]:
        """Return the attempts of a sweep's trials and evaluations, in the order in which they were started."""
        query = select(t.attempts).join(t.trials).where(t.trials.c.sweep_id == sweep_id)
        if running_only:
            query = query.where(t.attempts.c.outcome.is_(None))
        return self._records(Attempt, query.order_by(t.attempts.c.started_at))

    def versions(self, sweep_id: str) -> dict[str, list[dict[str, str]]]:
        """Return the versions of packages with which each trial has trained, one entry an attempt that noted them."""
        a, versions = t.attempts.c, dict[str, list[dict[str, str]]]()
        query = select(a.trial_id, a.versions).join(t.trials).where(t.trials.c.sweep_id == sweep_id)
        for trial_id, noted in self._rows(query.order_by(a.trial_id, a.number)):
            if noted:
                versions.setdefault(trial_id, []).append(noted)
        return versions

    def attempts_of(self, work_id: str) -> list[Attempt]:
        """Return the attempts of a trial or an evaluation, by number."""
        a = t.attempts.c
        return self._records(Attempt, select(t.attempts).where(a.trial_id == work_id).order_by(a.number))

    def start_attempt(self, fence: Fence, trial_id: str, directory: str) -> Attempt:
        """Give a pending trial or evaluation to a new attempt; `{attempt}` in the directory is its number, from 1."""
        with self._fenced(fence) as connection:
            return self._start_attempt(connection, fence, trial_id, directory)

    @staticmethod
    def _start_attempt(connection: Connection, fence: Fence, trial_id: str, directory: str) -> Attempt:
        trial = _one_trial(connection, trial_id)
        assert trial["state"] == TrialState.PENDING, f"trial {trial_id} is {trial['state']}"
        number, now = trial["attempts"] + 1, time.time()
        attempt = Attempt(
            trial_id=trial_id,
            number=number,
            epoch=fence.epoch,
            directory=directory.format(attempt=number),
            events_offset=0,
            started_at=now,
        )
        insert_records(connection, t.attempts, [attempt])
        begun = {"attempts": number, "started_at": trial["started_at"] or now}
        change(connection, t.trials, trial_id, state=TrialState.RUNNING, **begun)
        kind = _kind(trial["stage"])
        append_event(connection, fence.sweep_id, f"{kind}.started", {f"{kind}_id": trial_id, "attempt": number})
        return attempt

    def set_process(self, fence: Fence, attempt: Attempt, host: str, pid: int, pid_started_at: float) -> None:
        """Note the process of an attempt's trainer."""
        with self._fenced(fence) as connection:
            change(connection, t.attempts, attempt, host=host, pid=pid, pid_started_at=pid_started_at)

    def ingest(self, fence: Fence, attempt: Attempt, start: int, end: int, events: Sequence[Mapping[str, Any]]) -> None:
        """Store the events of `events.jsonl` between two byte offsets; the same part again is no change.

        Raises: ValueError, if bytes before `start` are missing in the store.
        """
        with self._fenced(fence) as connection:
            stored = select(t.attempts.c.events_offset, t.trials.c.stage).join(t.trials)
            offset, stage = connection.execute(stored.where(is_row_of(attempt, t.attempts))).one()
            if end <= offset:
                return
            if start != offset:
                raise ValueError(f"{attempt.directory}: events from byte {start} came, but the store ends at {offset}")
            if stage == EVALUATION_STAGE:
                store_measurements(connection, fence, attempt, events)
            else:
                store_training(connection, fence, attempt, events)
            change(connection, t.attempts, attempt, events_offset=end)

    def events_offset(self, attempt: Attempt) -> int:
        """Return the number of bytes of the attempt's `events.jsonl` that the store has."""
        query = select(t.attempts.c.events_offset).where(is_row_of(attempt, t.attempts))
        with self._read() as connection:
            return connection.execute(query).scalar_one()

    def spent(self, sweep_id: str) -> Spent:
        """Return the time that a sweep's begun trials, evaluations and probes have taken so far."""
        c, p = t.trials.c, t.probes.c
        query = select(c.state, c.held_s, c.stage).where(c.sweep_id == sweep_id, c.attempts > 0)
        probed = select(func.sum(p.held_s * p.gpus)).where(p.sweep_id == sweep_id)
        with self._read() as connection:
            begun = [
                WorkTime(TrialState(state), held_s, measures=stage == EVALUATION_STAGE)
                for state, held_s, stage in connection.execute(query)
            ]
            return Spent(begun, (connection.execute(probed).scalar_one() or 0.0) / 3600)

    def set_held(self, fence: Fence, attempt: Attempt, held_s: float) -> None:
        """Note the seconds for which an attempt has held its resources so far."""
        with self._fenced(fence) as connection:
            noted = connection.execute(select(t.attempts.c.held_s).where(is_row_of(attempt, t.attempts))).scalar_one()
            _hold(connection, attempt, held_s - noted)

    def finish_attempt(
        self,
        fence: Fence,
        attempt: Attempt,
        ending: Ending,
        message: str | None,
        max_crashes: int,
        more_held_s: float = 0.0,
    ) -> TrialState:
        """End an attempt and move its trial on. Ending it again changes nothing.

        A trial that somebody wants stopped is never tried again: its attempt ends as that wish says. Neither is a tune
        trial of a config that was dropped. The stored message is the one that `full_message` makes of this one.

        Args:
            more_held_s: seconds for which it held its resources beyond what `set_held` has noted.
        Returns: the trial's new state.
        """
        with self._fenced(fence) as connection:
            trial = _one_trial(connection, attempt.trial_id)
            if trial["stop_counts"] is not None:
                stop = Stop.by_hand(counts=trial["stop_counts"])
                ending, message = stop if stop.takes_place_of(ending) else (ending, message)
            elif MEANINGS[ending].retried:
                dropped = dropped_trials(connection, fence.sweep_id, TrialState.RUNNING)
                if trial["id"] in dropped:
                    ending, message = Ending.EARLY_STOPPED, dropped[trial["id"]]
            ended = update(t.attempts).where(is_row_of(attempt, t.attempts), t.attempts.c.outcome.is_(None))
            outcome = MEANINGS[ending].outcome
            values = {"outcome": outcome, "ending": ending, "ended_at": time.time()}
            if connection.execute(ended.values(values)).rowcount == 0:
                return TrialState(trial["state"])
            _hold(connection, attempt, more_held_s)
            crashes = _crashes_in_a_row(connection, attempt.trial_id)
            message = full_message(message, ending, attempt.trial_id, crashes, max_crashes)
            change(connection, t.attempts, attempt, message=message)
            state = state_after(ending, crashes, max_crashes)
            final = {"ending": ending, "ended_at": time.time()} if state.is_over else {}
            change(connection, t.trials, attempt.trial_id, state=state, message=message, **final)
            _tell_changes(connection, fence.sweep_id, {attempt.trial_id: trial["stage"]}, state, message)
            kind = _kind(trial["stage"])
            end = {"attempt": attempt.number, "outcome": outcome, "message": message}
            event = "attempt.finished" if kind == "trial" else "evaluation.attempt_finished"
            append_event(connection, fence.sweep_id, event, {f"{kind}_id": attempt.trial_id} | end)
            return state

    def end_waiting(self, fence: Fence, ending: Ending, message: str | None = None, *ids: str) -> None:
        """End every trial and evaluation that waits, or only those named, without another attempt."""
        with self._fenced(fence) as connection:
            end_waiting(connection, fence, ending, message, *ids)

    def request_stop(self, trial_id: str, *, counts: bool, by: str | None = None) -> Trial:
        """Note that the user wants one trial stopped while its sweep goes on. Repeating it changes nothing.

        A trial that waits ends here and now; one that runs is ended by its runner.

        Args:
            counts: True if the evaluations that it has recorded count as its result.
        Raises: NotFound; Conflict, if it has ended otherwise, or ends with its sweep.
        """
        with writing(self.engine) as connection:
            row = _one_trial(connection, trial_id)
            if row["stage"] == EVALUATION_STAGE:
                raise NotFound("trial", trial_id)
            sweep = one_sweep(connection, row["sweep_id"], lock=True)
            row = _one_trial(connection, trial_id)  # as it is now that nobody else writes
            stop, state = Stop.by_hand(counts=counts), TrialState(row["state"])
            if state.is_over and state is not MEANINGS[stop.ending].state:
                raise Conflict(f"trial {trial_id} has already ended as {state}; {_remedy(trial_id, state, counts)}")
            if not state.is_over and sweep["desired_state"] == DesiredState.CANCEL:
                raise Conflict(f"sweep {sweep['id']} is being cancelled, and trial {trial_id} ends with it")
            if row["stop_counts"] is not counts:
                change(connection, t.trials, trial_id, stop_counts=counts)
                data = {"trial_id": trial_id, "counts": counts, "by": by}
                append_event(connection, sweep["id"], "trial.stop_requested", data)
            if state is TrialState.PENDING:
                end_waiting(connection, Fence(sweep["id"], sweep["epoch"]), stop.ending, stop.message, trial_id)
        return self.get_trial(trial_id)

    def stops(self, sweep_id: str) -> dict[str, bool]:
        """Return by id the trials of a sweep that somebody wants stopped, or has stopped: True if the result counts."""
        c = t.trials.c
        query = select(c.id, c.stop_counts).where(c.sweep_id == sweep_id, c.stop_counts.is_not(None))
        return {row.id: row.stop_counts for row in self._rows(query)}

    def newest_checkpoint(self, trial_id: str) -> Checkpoint | None:
        """Return the recorded checkpoint with the highest step, of the newest attempt that has it."""
        c = t.checkpoints.c
        query = select(t.checkpoints).where(c.trial_id == trial_id).order_by(c.step.desc(), c.attempt.desc()).limit(1)
        return next(iter(self._records(Checkpoint, query)), None)

    def newest_checkpoints(self, sweep_id: str) -> list[Checkpoint]:
        """Return each trial's `newest_checkpoint`, by trial number; a trial without one is left out."""
        c = t.checkpoints.c
        newest_first = func.row_number().over(partition_by=c.trial_id, order_by=(c.step.desc(), c.attempt.desc()))
        ranked = select(t.checkpoints, t.trials.c.number, newest_first.label("place"))
        rows = ranked.join_from(t.checkpoints, t.trials).where(t.trials.c.sweep_id == sweep_id).subquery()
        return self._records(Checkpoint, select(rows).where(rows.c.place == 1).order_by(rows.c.number), sweep_id)


def _hold(connection: Connection, attempt: Attempt, more_s: float) -> None:
    """Add seconds to those for which an attempt, and so its trial, has held resources."""
    a = t.attempts.c
    held_from = func.coalesce(a.held_from, time.time() - more_s) if more_s else a.held_from
    change(connection, t.attempts, attempt, held_from=held_from, held_s=a.held_s + more_s)
    change(connection, t.trials, attempt.trial_id, held_s=t.trials.c.held_s + more_s)


def _one_trial(connection: Connection, trial_id: str) -> Any:
    row = connection.execute(select(t.trials).where(t.trials.c.id == trial_id)).mappings().one_or_none()
    if row is None:
        raise NotFound("trial", trial_id)
    return row


def _remedy(trial_id: str, state: TrialState, counts: bool) -> str:
    """Return the advice for a user who wants a trial stopped that has ended in another way."""
    if state not in (TrialState.STOPPED, TrialState.DISCARDED):
        return "there is nothing to stop"
    again = f"`sweeps retry {trial_id}`, then `sweeps stop {trial_id}{'' if counts else ' --discard'}`"
    return f"to have its result {'count' if counts else 'not count'}, let it go on and stop it anew: {again}"


def _crashes_in_a_row(connection: Connection, trial_id: str) -> int:
    """Count a trial's crashes from the attempt on that was the first to record its furthest checkpoint.

    A trial that begins anew, because its checkpoint is missing, gets no further by saving the same steps again.
    """
    a, c = t.attempts.c, t.checkpoints.c
    first = select(c.attempt).where(c.trial_id == trial_id).order_by(c.step.desc(), c.attempt).limit(1)
    last = func.coalesce(first.scalar_subquery(), 0)
    forgiven = select(t.trials.c.retried_after).where(t.trials.c.id == trial_id).scalar_subquery()
    crashes = select(func.count()).where(a.trial_id == trial_id, a.ending.in_(CRASHES), a.number >= last)
    crashes = crashes.where(a.number > forgiven)
    return connection.execute(crashes).scalar_one()


def end_waiting(connection: Connection, fence: Fence, ending: Ending, message: str | None = None, *ids: str) -> None:
    """End every trial and evaluation of a sweep that waits, or only those named; in one statement for thousands."""
    c = t.trials.c
    waiting = and_(c.sweep_id == fence.sweep_id, c.state == TrialState.PENDING, *([c.id.in_(ids)] if ids else []))
    rows = connection.execute(select(c.id, c.stage).where(waiting).order_by(c.number)).all()
    state = MEANINGS[ending].state
    values = {"state": state, "message": message, "ending": ending, "ended_at": time.time()}
    connection.execute(update(t.trials).where(waiting).values(values))
    _tell_changes(connection, fence.sweep_id, {row.id: row.stage for row in rows}, state, message)


def dropped_configs(connection: Connection, sweep_id: str) -> dict[str, Judgement]:
    """Return the judgements by which a sweep's configs were dropped, by config id; none of those taken back."""
    j = t.judgements.c
    query = select(t.judgements).where(j.sweep_id == sweep_id, j.dropped, ~j.taken_back).order_by(j.id)
    rows = connection.execute(query).mappings().all()
    return {row["config_id"]: Judgement.model_validate(dict(row)) for row in rows}


def dropped_trials(connection: Connection, sweep_id: str, state: TrialState) -> dict[str, str]:
    """Return by id the tune trials of dropped configs that are in this state, with the message of the judgement."""
    dropped, c = dropped_configs(connection, sweep_id), t.trials.c
    if not dropped:
        return {}
    query = select(c.id, c.config_id).where(c.sweep_id == sweep_id, c.stage == Stage.TUNE, c.state == state)
    rows = connection.execute(query.where(c.config_id.in_(dropped)).order_by(c.number))
    return {row.id: dropped[row.config_id].message for row in rows}


def wait_again(connection: Connection, sweep_id: str, ids: Sequence[str]) -> None:
    """Have trials and evaluations that have ended wait again.

    Their crashes so far are forgiven, and nobody wants them stopped. A config that was dropped is taken back.
    """
    c = t.trials.c
    values = {"state": TrialState.PENDING, "ending": None, "ended_at": None, "message": None, "stop_counts": None}
    which = and_(c.sweep_id == sweep_id, c.id.in_(ids))
    j, tuned = t.judgements.c, select(c.config_id).where(which, c.stage == Stage.TUNE).scalar_subquery()
    judged = update(t.judgements).where(j.sweep_id == sweep_id, j.dropped, j.config_id.in_(tuned))
    connection.execute(judged.values(taken_back=True))
    rows = connection.execute(select(c.id, c.stage).where(which).order_by(c.number)).all()
    connection.execute(update(t.trials).where(which).values(retried_after=c.attempts, **values))
    _tell_changes(connection, sweep_id, {row.id: row.stage for row in rows}, TrialState.PENDING, None)


def _tell_changes(
    connection: Connection, sweep_id: str, stages: Mapping[str, str], state: TrialState, message: str | None
) -> None:
    """Add the event of each trial and evaluation that has changed its state; `stages` has the stage of each by id."""
    news = {"state": state, "message": message}
    kinds: dict[str, list[dict[str, Any]]] = {}
    for id_, stage in stages.items():
        kind = _kind(stage)
        kinds.setdefault(kind, []).append({f"{kind}_id": id_} | news)
    for kind, data in kinds.items():
        append_event(connection, sweep_id, f"{kind}.state_changed", *data)


def _kind(stage: str) -> str:
    """Return the word of events for a row of this stage."""
    return "evaluation" if stage == EVALUATION_STAGE else "trial"
