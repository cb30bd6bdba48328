"""The device on which a run trains."""

import os
import platform
import re
from pathlib import Path

import torch


def device() -> tuple[str, float]:
    """Return the name of the device that trains, and its memory in MiB."""
    if torch.cuda.is_available():
        properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        return properties.name, properties.total_memory / 2**20
    processor = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**20
    return f"CPU ({processor[1].strip() if processor else platform.machine()})", memory
