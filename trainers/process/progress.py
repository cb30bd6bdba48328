"""Shows the progress of long work: a bar on stderr for people, at most one event `progress` a second for programs."""

import sys
import time
from collections.abc import Iterable, Iterator
from typing import Final, NoReturn, TypeVar

from tqdm import tqdm

from trainers.process.events import EventWriter

_EVENT_INTERVAL_S: Final = 1.0
_TERMINAL_INTERVAL_S: Final = 0.2
_LOG_INTERVAL_S: Final = 10.0

T = TypeVar("T")


class Announcer:
    """Writes `progress` events, at most one a second."""

    def __init__(self, events: EventWriter, phase: str, total: int) -> None:
        self._events, self._phase, self._total = events, phase, total
        self._last = -_EVENT_INTERVAL_S

    def announce(self, done: int) -> None:
        """Write how many of the total are done, if the last event is a second old or everything is done."""
        now = time.monotonic()
        if now - self._last >= _EVENT_INTERVAL_S or done == self._total:
            self._last = now
            self._events.write("progress", phase=self._phase, done=done, total=self._total)


def bar(phase: str, total: int, done: int = 0) -> "tqdm[NoReturn]":
    """Make a progress bar on stderr; where that is not a terminal, it prints a line every ten seconds."""
    interval = _TERMINAL_INTERVAL_S if sys.stderr.isatty() else _LOG_INTERVAL_S
    return tqdm(desc=phase, total=total, initial=done, file=sys.stderr, mininterval=interval, dynamic_ncols=True)


def tracked(items: Iterable[T], phase: str, total: int, events: EventWriter) -> Iterator[T]:
    """Yield `items`, reporting after each how many of `total` are done."""
    announcer = Announcer(events, phase, total)
    with bar(phase, total) as shown:
        for done, item in enumerate(items):
            announcer.announce(done)
            yield item
            shown.update()
    announcer.announce(total)
