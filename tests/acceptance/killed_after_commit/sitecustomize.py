"""Kills the API between a commit and the answer to whoever asked for it, when a test has laid the trap for it.

Python imports this module when it starts, because the test puts this folder first on PYTHONPATH. The trap is a file,
which `KILLED_AFTER_COMMIT` names; it goes off once, at the next transaction that has changed a row.
"""

import os
import signal
import sys
from pathlib import Path


def _lay(trap: Path) -> None:
    from sqlalchemy.engine.default import DefaultDialect

    commit, changes = DefaultDialect.do_commit, dict[int, int]()

    def deadly(self: DefaultDialect, connection: object) -> None:
        commit(self, connection)  # pyright: ignore[reportArgumentType]
        before, changed = changes.get(id(connection), 0), connection.total_changes  # type: ignore[attr-defined]
        changes[id(connection)] = changed
        if changed > before and trap.exists():
            trap.rename(trap.with_suffix(".sprung"))
            os.kill(os.getpid(), signal.SIGKILL)

    DefaultDialect.do_commit = deadly  # type: ignore[method-assign]


if "KILLED_AFTER_COMMIT" in os.environ and sys.orig_argv[-1] == "api":
    _lay(Path(os.environ["KILLED_AFTER_COMMIT"]))
