"""Shows the progress of long work: a bar on stderr for people, events `progress` for programs."""

import sys
import time
from collections.abc import Iterable, Iterator
from typing import Final, NoReturn, TypeVar

from tqdm import tqdm

from trainers.process.events import EventWriter

_EVENT_INTERVAL_S: Final = 1.0
_EVENT_INTERVAL_SHARE: Final = 0.02
"""Share of the time since the beginning that lies between two events: work of an hour has some 250."""
_SIGN_OF_LIFE_S: Final = 30.0
"""After this many seconds without progress, waiting work announces the same count again, as a sign of life."""
_TERMINAL_INTERVAL_S: Final = 0.2
_LOG_INTERVAL_S: Final = 10.0

T = TypeVar("T")


class Announcer:
    """Writes `progress` events: at most one a second, and more rarely the longer the work takes, for all are kept."""

    def __init__(self, events: EventWriter, phase: str, total: int) -> None:
        self._events, self._phase, self._total = events, phase, total
        self._begun = time.monotonic()
        self._last, self._announced = -_EVENT_INTERVAL_S, -1

    def announce(self, done: int) -> None:
        """Write how many of the total are done, if that has changed, and the last event is old enough or all are.

        What has not changed is written again as a sign of life, if this is called after `_SIGN_OF_LIFE_S`.
        """
        now = time.monotonic()
        interval = max(_EVENT_INTERVAL_S, (now - self._begun) * _EVENT_INTERVAL_SHARE)
        waits = done == self._announced != self._total and now - self._last >= _SIGN_OF_LIFE_S
        if waits or (done != self._announced and (now - self._last >= interval or done == self._total)):
            self._last, self._announced = now, done
            self._events.write("progress", phase=self._phase, done=done, total=self._total)


def bar(phase: str, total: int, done: int = 0) -> "tqdm[NoReturn]":
    """Make a progress bar on stderr; where that is not a terminal, it prints a line every ten seconds."""
    interval = _TERMINAL_INTERVAL_S if sys.stderr.isatty() else _LOG_INTERVAL_S
    return tqdm(desc=phase, total=total, initial=done, file=sys.stderr, mininterval=interval, dynamic_ncols=True)


def tracked(items: Iterable[T], phase: str, total: int, events: EventWriter, begun: int = 0) -> Iterator[T]:
    """Yield `items`, reporting after each how many of `total` are done; `begun` were before the first."""
    announcer = Announcer(events, phase, total)
    with bar(phase, total, begun) as shown:
        for done, item in enumerate(items, begun):
            announcer.announce(done)
            yield item
            shown.update()
    announcer.announce(total)
