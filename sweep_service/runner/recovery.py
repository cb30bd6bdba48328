"""Ends attempts whose runner is gone: what they wrote is stored before their trials go on."""

from pathlib import Path
from typing import Final

from sweep_service.processes.child_processes import terminate
from sweep_service.runner.trainer_process import EVENTS_FILE, EventChunk, attempt_end
from sweep_service.store import Fence, Store
from sweep_service.sweep.endings import Ending
from sweep_service.sweep.records import Attempt, Sweep

UNSEEN_S: Final = 15.0
"""Seconds for which a trainer may have held its resources unseen: after its runner's last note, and after its end."""


def recover(store: Store, fence: Fence, sweep: Sweep) -> None:
    """End every attempt that an earlier runner left without an outcome, and its probe.

    A trial that had finished stays finished.
    """
    store.lose_probe(fence, UNSEEN_S)
    for attempt in store.list_attempts(sweep.id, running_only=True):
        settle(store, fence, sweep, attempt, Ending.LOST, UNSEEN_S)


def settle(store: Store, fence: Fence, sweep: Sweep, attempt: Attempt, unknown: Ending, more_held_s: float) -> None:
    """End one attempt: kill its trainer if it lives, store the rest of its events, and take the ending from them.

    Args:
        unknown: the ending if the events do not tell it.
        more_held_s: seconds for which it held its resources beyond what the store has.
    """
    terminate(attempt.host, attempt.pid, attempt.pid_started_at)
    ingest_rest(store, fence, attempt)
    ending, message = attempt_end(None, Path(attempt.directory))
    if ending is Ending.LOST:
        ending = unknown
    store.finish_attempt(fence, attempt, ending, message, sweep.spec.retries.max_crashes, more_held_s)


def ingest_rest(store: Store, fence: Fence, attempt: Attempt) -> None:
    """Store what the trainer wrote after the last part that the store has. The trainer has ended.

    What cannot be read, because the machine went down while it was written, is left out with all that follows.
    """
    path = Path(attempt.directory) / EVENTS_FILE
    part = EventChunk.read(path, store.events_offset(attempt))
    while part.lines:
        try:
            events = part.events
        except ValueError:
            return
        store.ingest(fence, attempt, part.start, part.end, events)
        part = EventChunk.read(path, part.end)
