"""Processor time of a process and its descendants: one that works uses some, a stuck one none."""

from contextlib import suppress
from typing import Final

import psutil

BUSY_SHARE: Final = 0.005
"""A process that takes more than this share of one core works. A process that is stopped or waits for ever takes none,
apart from threads that wake to look around; sampling, training and loading take many times more, whatever a GPU does.
"""


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
