"""Measures seconds and peak memory of one process, phase by phase, for the cost probe."""

import os
import re
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import torch


class CostMeter:
    """Measures what happens between `begin` and the next `begin` or `end`.

    Args:
        announce: called with the name of each phase that begins.
    """

    def __init__(self, announce: Callable[[str], None]) -> None:
        self.seconds: dict[str, float] = {}
        self.peak_mib: dict[str, float] = {}
        self._announce, self._phase, self._since = announce, "", 0.0

    def begin(self, phase: str) -> None:
        """End the present phase and begin another; the same phase simply goes on."""
        if phase == self._phase:
            return
        self.end()
        self._announce(phase)
        if torch.cuda.is_available():
            torch.cuda.reset_peak_memory_stats()
        else:
            with suppress(OSError):  # where Linux does not allow it, the peak is that since the process's start
                Path("/proc/self/clear_refs").write_text("5")
        self._phase, self._since = phase, time.perf_counter()

    def end(self) -> None:
        """End the present phase, once the device has finished its work."""
        settle()
        if self._phase:
            seconds = time.perf_counter() - self._since
            self.seconds[self._phase] = self.seconds.get(self._phase, 0.0) + seconds
            self.peak_mib[self._phase] = max(self.peak_mib.get(self._phase, 0.0), _memory_peak_of_phase_mib())
        self._phase = ""


def settle() -> None:
    """Wait until the GPU, if there is one, has finished its work."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def _memory_peak_of_phase_mib() -> float:
    """Return the most GPU memory that PyTorch held in this phase; without a GPU, the process's largest resident size.

    The metric memory/peak_mib, in contrast, is the peak since the process started.
    """
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated() / 2**20
    peak_kib = re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())
    return int(peak_kib[1]) / 1024 if peak_kib else 0.0


def process_age_s() -> float:
    """Return the seconds since this process was started or forked."""
    started = int(Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started
