"""Progress of long work: a bar on stderr for people, `progress` events at most once a second for programs."""

import sys
import time
from collections.abc import Iterable, Iterator
from typing import Final, NoReturn, TypeVar

from tqdm import tqdm

from trainers.events import EventWriter

_EVENT_INTERVAL_S: Final = 1.0
_TERMINAL_INTERVAL_S: Final = 0.2
_LOG_INTERVAL_S: Final = 10.0

T = TypeVar("T")


def bar(phase: str, total: int, done: int = 0) -> "tqdm[NoReturn]":
    """A progress bar on stderr; where that is no terminal, a line every ten seconds."""
    interval = _TERMINAL_INTERVAL_S if sys.stderr.isatty() else _LOG_INTERVAL_S
    return tqdm(desc=phase, total=total, initial=done, file=sys.stderr, mininterval=interval, dynamic_ncols=True)


def tracked(items: Iterable[T], phase: str, total: int, events: EventWriter) -> Iterator[T]:
    """Yield `items`, reporting after each how many of `total` are done."""
    last = 0.0
    with bar(phase, total) as shown:
        for done, item in enumerate(items):
            if time.monotonic() - last >= _EVENT_INTERVAL_S:
                last = time.monotonic()
                events.write("progress", phase=phase, done=done, total=total)
            yield item
            shown.update()
    events.write("progress", phase=phase, done=total, total=total)
