"""The connections of the API: a client that sends nothing, or too slowly, does not keep others out.

uvicorn has a time limit only between two requests of a connection, and none on their number.
"""

import asyncio
import resource
from functools import cache
from typing import Any, Final, cast

from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

REQUEST_S: Final = 20.0
"""Seconds in which a request must come, its body included: 128 KiB at most."""
BACKLOG: Final = 100
"""Connections taken from the kernel at a time, before any of them is looked at."""


@cache
def most_connections() -> int:
    """Return the largest number of connections; half of the process's file descriptors are left for the rest."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2


class TimedConnection(H11Protocol):
    """A connection that is closed if no request comes in time, or if others need its place while it waits."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._deadline: asyncio.TimerHandle | None = None

    @property
    def waits(self) -> bool:
        """True if a request, or the rest of one, is awaited."""
        cycle = cast("RequestResponseCycle | None", self.cycle)
        return cycle is None or cycle.response_complete or cycle.more_body

    @property
    def waits_until(self) -> float:
        """Time of the loop at which waiting ends."""
        return self._deadline.when() if self._deadline else 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Begin to wait for a request; close the connection that has waited longest if there are too many."""
        super().connection_made(transport)
        self._wait()
        if len(self.connections) > most_connections():
            waiting = [one for one in self.connections if isinstance(one, TimedConnection) and one.waits]
            min(waiting, key=lambda one: one.waits_until, default=self).transport.abort()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        super().connection_lost(exc)
        if self._deadline:
            self._deadline.cancel()

    def _wait(self) -> None:
        if self._deadline:
            self._deadline.cancel()
        self._deadline = self.loop.call_later(REQUEST_S, self._close_if_waiting)

    def _close_if_waiting(self) -> None:
        if self.waits and not self.transport.is_closing():
            self.transport.abort()
