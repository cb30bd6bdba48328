"""A sweep's events as server-sent events: all after a number, then new ones until the sweep has ended."""

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass

from fastapi.responses import Response, StreamingResponse
from fastapi.sse import KEEPALIVE_COMMENT, format_sse_event
from starlette.concurrency import run_in_threadpool

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
    stopping: bool = False
    """Set by another thread."""

    def response(self, service: SweepService, sweep_id: str, after: int, *, head: bool) -> Response:
        """Return the stream of a sweep's events with a number above `after`; with `head` its headers alone.

        Raises: Refusal, if too many streams are open.
        """
        if self.open >= MAX_STREAMS:
            detail = f"{MAX_STREAMS} event streams are open already; ask for JSON pages, or later"
            raise Refusal(429, "TOO_MANY_STREAMS", detail, {"Retry-After": "10"})
        headers = {"X-Accel-Buffering": "no"}
        if head:
            return Response(headers=headers, media_type="text/event-stream")
        events = self._events(service, sweep_id, after)
        return StreamingResponse(events, headers=headers, media_type="text/event-stream")

    async def _events(self, service: SweepService, sweep_id: str, after: int) -> AsyncIterator[bytes]:
        self.open += 1
        try:
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
        finally:
            self.open -= 1
