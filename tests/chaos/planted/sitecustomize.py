"""Plants a mistake in the runners and the worker of an installation, to see that the nemesis finds it.

Python imports this module when it starts, because the nemesis puts this folder first on PYTHONPATH if it is asked to
plant one. `PLANTED_MISTAKE` names it.
"""

import os
import sys


def _plant(mistake: str) -> None:
    from collections.abc import Generator
    from contextlib import contextmanager
    from pathlib import Path

    from sqlalchemy import Connection

    from sweep_service.runner import recovery
    from sweep_service.runner.trainer_process import EventChunk
    from sweep_service.store import Fence, Store
    from sweep_service.store.base import Rows
    from sweep_service.store.database import writing
    from sweep_service.sweep.records import Attempt

    if mistake == "no-fence":

        @contextmanager
        def unfenced(self: Rows, fence: object) -> Generator[Connection]:
            """Open a writing transaction whoever holds the sweep by now."""
            with writing(self.engine) as connection:
                yield connection

        Rows._fenced = unfenced
    elif mistake == "no-rest":

        def ingest_checkpoints(store: Store, fence: Fence, attempt: Attempt) -> None:
            """Store the checkpoints of the rest alone, so that trials go on after steps that nobody has stored."""
            path = Path(attempt.directory) / recovery.EVENTS_FILE
            rest = EventChunk.read(path, store.events_offset(attempt))
            checkpoints = [event for event in rest.events if event["type"] == "checkpoint"]
            store.ingest(fence, attempt, rest.start, rest.end, checkpoints)

        recovery.ingest_rest = ingest_checkpoints
    else:
        raise ValueError(f"there is no mistake {mistake!r} to plant")


if "PLANTED_MISTAKE" in os.environ and ("sweep_service.runner" in sys.orig_argv or sys.orig_argv[-1] == "worker"):
    _plant(os.environ["PLANTED_MISTAKE"])
