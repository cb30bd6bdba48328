"""Waiting for what other processes and threads do, as long as the slowest machine needs."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

PATIENT_S = 600.0
"""Seconds after which a wait has failed. No test says how fast a machine is: only what hangs takes this long."""


def wait_until(what: str, happened: Callable[[], object], timeout_s: float = PATIENT_S) -> None:
    """Poll until it has happened, and leave the processor to what the test waits for.

    Raises: TimeoutError.
    """
    deadline = time.monotonic() + timeout_s
    while (began := time.monotonic()) and not happened():
        if (now := time.monotonic()) > deadline:
            raise TimeoutError(f"not within {timeout_s:.0f} s: {what}")
        time.sleep(min(max(0.02, 4 * (now - began)), 0.25))


def in_threads(count: int, work: Callable[[int], Any]) -> list[Any]:
    """Return what `work` returned for 0 … count - 1, all begun at the same time."""
    barrier = threading.Barrier(count)

    def begin(index: int) -> Any:
        barrier.wait(PATIENT_S)
        return work(index)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(begin, range(count)))
