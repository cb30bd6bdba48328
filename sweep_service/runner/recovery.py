"""Ends attempts whose runner is gone: what they wrote is stored before their trials go on."""

from pathlib import Path
from typing import Final

from sweep_service.processes.child_processes import terminate
from sweep_service.runner.health_watch import looked_at
from sweep_service.runner.jobs import own_job
from sweep_service.runner.own_record import OwnRecord
from sweep_service.runner.own_trainer_process import noted_after_step, recorded_end
from sweep_service.runner.trainer_process import EVENTS_FILE, AttemptEnd, EventChunk, OwnJob, attempt_end
from sweep_service.store import Fence, Store
from sweep_service.sweep.endings import Ending, TrialState
from sweep_service.sweep.records import Attempt, Sweep

UNSEEN_S: Final = 15.0
"""Seconds for which a trainer may have held its resources unseen: after its runner's last note, and after its end."""


def recover(store: Store, fence: Fence, sweep: Sweep) -> None:
    """End every attempt that an earlier runner left without an outcome, and its probe.

    A trial that had finished stays finished.
    """
    store.lose_probe(fence, UNSEEN_S)
    trials = {trial.id for trial in store.list_trials(sweep.id, states=[TrialState.RUNNING])}
    for attempt in store.list_attempts(sweep.id, running_only=True):
        end = end_unwatched(store, fence, attempt, own_job(sweep.spec))
        ending, message = looked_at(store, fence, sweep, attempt.trial_id, end) if attempt.trial_id in trials else end
        store.finish_attempt(fence, attempt, ending, message, sweep.spec.retries.max_crashes, UNSEEN_S)


def end_unwatched(store: Store, fence: Fence, attempt: Attempt, own: OwnJob | None = None) -> AttemptEnd:
    """Kill an attempt's trainer if it lives, store the rest of its events, and return its end: LOST if they tell none.

    Nobody watches it any more: its runner or its actor has gone.

    Args:
        own: what the sweep's own trainer needs; from which step the attempt went on is read from its folder.
    """
    terminate(attempt.host, attempt.pid, attempt.pid_started_at)
    if own is not None:
        own = own.model_copy(update={"after_step": noted_after_step(Path(attempt.directory))})
        record = OwnRecord(Path(attempt.directory), own, store.events_offset(attempt))
        while (part := record.next_part()).end > part.start:
            store.ingest(fence, attempt, part.start, part.end, part.events)
        return evaluated(store, fence, attempt, own, recorded_end(record, Path(attempt.directory)))
    ingest_rest(store, fence, attempt)
    return attempt_end(None, Path(attempt.directory))


def evaluated(store: Store, fence: Fence, attempt: Attempt, own: OwnJob | None, end: AttemptEnd) -> AttemptEnd:
    """Return the end, or FAILED if a trial of a trainer of one's own would succeed without any evaluation."""
    if own is None or end.ending is not Ending.SUCCEEDED:
        return end
    if store.curves(fence.sweep_id, [own.metric], [attempt.trial_id]):
        return end
    return AttemptEnd(Ending.FAILED, f"no attempt of it wrote an evaluation; configs are compared by {own.metric}")


def ingest_rest(store: Store, fence: Fence, attempt: Attempt) -> None:
    """Store the events after the last part that the store has. The trainer has ended.

    A line that cannot be read, because the machine went down meanwhile, is left out with all that follows.
    """
    path, offset = Path(attempt.directory) / EVENTS_FILE, store.events_offset(attempt)
    while (part := EventChunk.read(path, offset)).lines:
        try:
            events = part.events
        except ValueError:
            return
        store.ingest(fence, attempt, part.start, part.end, events)
        offset = part.end
