"""Carries out deletions of sweeps: files, then rows. Their runs in MLflow are removed by the projection.

Every step may be done again, so a worker that is killed in the middle leaves nothing that the next one cannot finish.
"""

import logging
import re
import shutil
import subprocess
import threading
import time
from pathlib import Path
from typing import Final

from sweep_service.settings import Settings
from sweep_service.store import Store
from sweep_service.sweep.deletion import Deletion

EVERY_S: Final = 1.0
MLFLOW_FIRST_S: Final = 10.0
"""Seconds for which MLflow may go first; one that is away delays nothing but its own part."""
LONGEST_PAUSE_S: Final = 60.0
_LONGEST_REASON: Final = 500

log = logging.getLogger(__name__)


class Deleter:
    """Deletes what users want gone, in a thread of its own: a folder may hold terabytes."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store, self._settings = store, settings

    def run(self, stopped: threading.Event) -> None:
        """Work until `stopped` is set. Never raises."""
        pause = EVERY_S
        while not stopped.wait(pause):
            try:
                self.go_on(stopped)
                pause = EVERY_S
            except Exception:  # a deletion in trouble must not stop sweeps
                log.exception("a deletion has to wait; trying again")
                pause = min(2 * pause, LONGEST_PAUSE_S)

    def go_on(self, stopped: threading.Event) -> None:
        """Carry out what can be done now."""
        failures: list[Exception] = []
        for deletion in self._store.open_deletions():
            if stopped.is_set():
                return
            if self._store.is_held(deletion.sweep_id):  # its runner or its report has not quite ended
                continue
            try:
                self._carry_out(deletion)
            except Exception as error:  # noqa: BLE001 (whatever it is, it holds up no other deletion)
                message = f"{deletion.sweep_id} cannot be removed: {error!r}"[:_LONGEST_REASON]
                if isinstance(error, OSError):
                    reason = error.strerror or error
                    message = f"{error.filename or deletion.sweep_id} cannot be removed: {reason}"
                if deletion.message != message:
                    self._store.set_deletion_hindered(deletion.sweep_id, message)
                failures.append(error)
        if failures:
            raise failures[0]

    def _carry_out(self, deletion: Deletion) -> None:
        if deletion.mlflow_done_at is None and self._settings.mlflow_url:
            if time.time() - deletion.asked_at < MLFLOW_FIRST_S:
                return
        elif deletion.mlflow_done_at is None:
            self._store.set_mlflow_deleted(deletion.sweep_id)
        if deletion.files_done_at is None:
            remove_folder(self._settings.storage, deletion.sweep_id)
            self._store.set_files_deleted(deletion.sweep_id)
        self._store.remove_rows(deletion)
        log.info("%s %s (%s)", "archived" if deletion.keep_report else "deleted", deletion.sweep_id, deletion.name)


def remove_folder(storage: Path, sweep_id: str) -> None:
    """Remove a sweep's folder below the storage with all that is in it; links are removed, not followed.

    Raises: OSError, if something cannot be removed.
    """
    assert re.fullmatch(r"swp_[0-9a-z]+", sweep_id)
    folder = storage / sweep_id
    if folder.is_symlink():
        folder.unlink()
    elif folder.exists():
        try:
            shutil.rmtree(folder)
        except RecursionError:  # folders in folders, deeper than Python goes
            done = subprocess.run(["rm", "-rf", "--", folder], capture_output=True, check=False)
            if done.returncode:
                last = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
                raise OSError(last[-_LONGEST_REASON:]) from None
