"""The lease on the sweep. It is renewed while Tune moves and Ray lives; otherwise this process ends at once."""

import os
import select
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from sqlalchemy.exc import SQLAlchemyError

from sweep_service.errors import StaleEpoch
from sweep_service.store import Fence, Store

LEASE_S: Final = 10.0
RENEW_EVERY_S: Final = 2.0
LONGEST_STEP_S: Final = 60.0
"""Seconds without a step of Tune's loop after which the loop counts as stuck."""

LOST_EXIT_CODE: Final = 3
STUCK_EXIT_CODE: Final = 4
NO_RAY_EXIT_CODE: Final = 75
GAVE_WAY_EXIT_CODE: Final = 76


class Lease:
    """Renews the lease from its own thread.

    `abandon` is called before the process ends early; it kills the trainers of this runner, once it has any.
    """

    def __init__(self, store: Store, fence: Fence, abandon: Callable[[], None] = lambda: None) -> None:
        self.abandon = abandon
        self._store, self._fence = store, fence
        self._moved_at = self._renewed_at = time.monotonic()
        self._stopped = threading.Event()

    def start(self) -> None:
        """Begin to renew; the worker that claimed the sweep has left a lease behind."""
        threading.Thread(target=self._renew, name="lease", daemon=True).start()

    def stop(self) -> None:
        """Stop renewing."""
        self._stopped.set()

    def beat(self) -> None:
        """Note that Tune's loop moves."""
        self._moved_at = time.monotonic()

    def end_by_signal(self, number: int) -> None:
        """End this process at once, and the trainers of this runner: whoever sends a signal, a new runner goes on."""
        self._end(128 + number, f"signal {number}")

    def give_way(self) -> None:
        """End this process at once, while nothing of its sweep runs: it is another's turn, which has no runner yet."""
        self._end(GAVE_WAY_EXIT_CODE, "it is another sweep's turn, which needs a runner")

    def watch(self, raylet: int) -> None:
        """End this process when the process with pid `raylet` ends."""

        def end_with_it() -> None:
            while not _wait_for_end(raylet):
                time.sleep(1)  # out of file handles, for instance: that passes
            if not self._stopped.is_set():
                self._end(NO_RAY_EXIT_CODE, "the Ray node of this runner has gone")

        threading.Thread(target=end_with_it, name="raylet-watch", daemon=True).start()

    def _renew(self) -> None:
        try:
            while not self._stopped.wait(RENEW_EVERY_S):
                now = time.monotonic()
                if now - self._moved_at > LONGEST_STEP_S:
                    self._end(STUCK_EXIT_CODE, f"Tune's loop has not moved for {LONGEST_STEP_S:.0f} s")
                try:
                    self._store.renew_lease(self._fence, LEASE_S)
                    self._renewed_at = now
                except StaleEpoch as error:
                    self._end(LOST_EXIT_CODE, str(error))
                except (SQLAlchemyError, OSError) as error:
                    if now - self._renewed_at > LEASE_S:
                        self._end(LOST_EXIT_CODE, f"the lease could not be renewed for {LEASE_S:.0f} s: {error}")
        except BaseException as error:  # noqa: BLE001 (a runner must not go on while nobody renews its lease)
            self._end(LOST_EXIT_CODE, f"the lease is no longer renewed ({type(error).__name__}: {error})")

    def _end(self, code: int, reason: str) -> None:
        try:
            with suppress(OSError):  # a full disk
                sys.stderr.write(f"runner ends: {reason}\n")
                sys.stderr.flush()
            self.abandon()
        finally:
            os._exit(code)


def _wait_for_end(pid: int) -> bool:
    """Wait until a process has ended; return False if it cannot be waited for now."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    end = select.poll()
    end.register(descriptor, select.POLLIN)
    end.poll()
    os.close(descriptor)
    return True


def process_behind(socket_path: str) -> int | None:
    """Return the pid of the process that listens on a Unix socket of this host; None if it cannot be told."""
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(socket_path)
        except OSError:
            return None
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return struct.unpack("3i", credentials)[0] or None
