"""A sweep's events as server-sent events: all after a number, then new ones until the sweep has ended."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field

from fastapi.responses import Response, StreamingResponse
from fastapi.sse import KEEPALIVE_COMMENT, format_sse_event
from starlette.concurrency import run_in_threadpool
from starlette.types import Receive, Scope, Send

from sweep_service.api.problems import Refusal
from sweep_service.schemas import EventView
from sweep_service.service import SweepService

POLL_S = 0.3
PING_S = 15.0
RETRY_MS = 2000
MAX_STREAMS = 100
_BATCH = 500


@dataclass
class Streams:
    """The open streams of this process; `stopping` ends them, so that the server can shut down."""

    open: int = 0
    """Number of streams that have a place."""
    stopping: bool = False
    """Set by another thread."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def response(self, service: SweepService, sweep_id: str, after: int, *, head: bool) -> Response:
        """Return the stream of a sweep's events with a number above `after`; with `head` its headers alone.

        Raises: Refusal, if too many streams are open.
        """
        headers = {"X-Accel-Buffering": "no"}
        with self._lock:  # routes run in many threads
            if self.open >= MAX_STREAMS:
                detail = f"{MAX_STREAMS} event streams are open already; ask for JSON pages, or later"
                raise Refusal(429, "TOO_MANY_STREAMS", detail, {"Retry-After": "10"})
            if head:
                return Response(headers=headers, media_type="text/event-stream")
            self.open += 1
        events = self._events(service, sweep_id, after)
        return _Stream(events, headers, self._leave)

    def _leave(self) -> None:
        with self._lock:
            self.open -= 1

    async def _events(self, service: SweepService, sweep_id: str, after: int) -> AsyncIterator[bytes]:
        yield format_sse_event(retry=RETRY_MS)
        sent = time.monotonic()
        while not self.stopping:
            ended = (await run_in_threadpool(service.store.get_sweep, sweep_id)).state.is_over
            events = await run_in_threadpool(service.store.list_events, sweep_id, after, _BATCH)
            for event in events:
                shown = EventView(**dict(event))
                yield format_sse_event(data_str=shown.model_dump_json(), event=event.type, id=str(event.seq))
                after, sent = event.seq, time.monotonic()
            if events:
                continue
            if ended:
                yield format_sse_event(data_str="{}", event="end")
                return
            if time.monotonic() - sent > PING_S:
                yield KEEPALIVE_COMMENT
                sent = time.monotonic()
            await asyncio.sleep(POLL_S)


class _Stream(StreamingResponse):
    """A stream that gives its place back, also if its client has gone before the first event."""

    def __init__(self, events: AsyncIterator[bytes], headers: Mapping[str, str], leave: Callable[[], None]) -> None:
        super().__init__(events, headers=headers, media_type="text/event-stream")
        self._leave = leave

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._leave()
