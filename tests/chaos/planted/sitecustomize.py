"""Plants a mistake in the runners and the worker of an installation, to see that the nemesis finds it.

Python imports this module when it starts, because the nemesis puts this folder first on PYTHONPATH if it is asked to
plant one. `PLANTED_MISTAKE` names it.
"""

import os
import sys


def _plant(mistake: str) -> None:
    from collections.abc import Generator
    from contextlib import contextmanager

    from sqlalchemy import Connection

    from sweep_service.store.base import Rows
    from sweep_service.store.database import writing
    from sweep_service.store.trial_rows import TrialRows
    from sweep_service.sweep.records import Attempt

    if mistake == "no-fence":

        @contextmanager
        def unfenced(self: Rows, fence: object) -> Generator[Connection]:
            """Open a writing transaction whoever holds the sweep by now."""
            with writing(self.engine) as connection:
                yield connection

        Rows._fenced = unfenced
    elif mistake == "no-offset":

        def end_of_file(self: TrialRows, attempt: Attempt) -> int:
            """Take it that the store has whatever lies in the file."""
            path = os.path.join(attempt.directory, "events.jsonl")
            return os.path.getsize(path) if os.path.exists(path) else 0

        TrialRows.events_offset = end_of_file
    else:
        raise ValueError(f"there is no mistake {mistake!r} to plant")


if "PLANTED_MISTAKE" in os.environ and ("sweep_service.runner" in sys.orig_argv or sys.orig_argv[-1] == "worker"):
    _plant(os.environ["PLANTED_MISTAKE"])
