"""Notices a hung process, which shows no sign of life at several looks in a row: processor time, for one.

Looks are counted, no hours: while a machine sleeps, or the one who looks is held up, nobody looks, and nothing counts.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import psutil

BUSY_SHARE: Final = 0.005
"""A process that takes more than this share of one core works. A process that is stopped or waits for ever takes none,
apart from threads that wake to look around; sampling, training and loading take many times more, whatever a GPU does.
"""


class Vigil:
    """Watches for life, and loses patience.

    Args:
        shows_life: says whether there has been a sign of life since it was last called.
        patience_s: seconds of looks without life after which the watched one hangs.
        every_s: least seconds between two looks.
        first_s: patience until the first sign of life, for what takes long to start; None: no other patience.
    """

    def __init__(
        self, shows_life: Callable[[], bool], patience_s: float, every_s: float, first_s: float | None = None
    ) -> None:
        self._shows_life, self._patience_s, self._every_s, self._first_s = shows_life, patience_s, every_s, first_s
        self._lifeless_looks = 0
        self.has_seen_life = False
        """True if there was a sign of life since the beginning."""
        self._next_look = time.monotonic() + every_s

    @property
    def lifeless_s(self) -> float:
        """Seconds of looks that have seen no life since the last sign of it."""
        return self._lifeless_looks * self._every_s

    def hangs(self) -> bool:
        """Look, if it is time to; return whether there has been no life for so long that the watched one hangs."""
        if time.monotonic() >= self._next_look:
            try:
                alive = self._shows_life()
            finally:  # also after an error, which counts for nothing
                self._next_look = time.monotonic() + self._every_s
            self._lifeless_looks = 0 if alive else self._lifeless_looks + 1
            self.has_seen_life |= alive
        patience_s = self._patience_s if self.has_seen_life or self._first_s is None else self._first_s
        return self.lifeless_s >= patience_s

    def note_life(self) -> None:
        """Note a sign of life that somebody else has seen."""
        self._lifeless_looks, self.has_seen_life = 0, True

    def begin_anew(self) -> None:
        """Forget what was seen: the watched one has just been started, and shows no life that is older than this."""
        with suppress(Exception):  # the next look says what keeps this one from looking
            self._shows_life()
        self._lifeless_looks, self.has_seen_life = 0, False
        self._next_look = time.monotonic() + self._every_s


def processor_time_s(pid: int) -> float:
    """Return the seconds of processor time of a process, of all below it, and of those that have ended there.

    Raises: psutil.Error, if there is no such process.
    """
    process, busy_s = psutil.Process(pid), 0.0
    for one in [process, *process.children(recursive=True)]:
        with suppress(psutil.NoSuchProcess):
            times = one.cpu_times()
            busy_s += times.user + times.system + times.children_user + times.children_system
    return busy_s


def has_worked(before_s: float, now_s: float, over_s: float) -> bool:
    """True if a process has worked between two looks at its `processor_time_s`, `over_s` seconds apart.

    The sum falls when a process below ends whose parent does not wait for it: that is work, too.
    """
    return not 0 <= now_s - before_s < BUSY_SHARE * over_s
