"""Waiting for what another process or thread does, as long as the slowest machine needs."""

import time
from collections.abc import Callable

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
