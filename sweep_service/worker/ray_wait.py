"""Finds out where Ray answers, if it does, so that no runner starts in vain."""

import json
import time
from contextlib import suppress
from typing import Final

from sweep_service.processes.port_owners import StrangerListens, check_port
from sweep_service.settings import Settings

FIRST_PAUSE_S: Final = 1.0
LONGEST_PAUSE_S: Final = 60.0
LOOK_EVERY_S: Final = 2.0
"""Seconds for which an answer counts."""


class RayWait:
    """Looks for Ray where the settings say, then where `sweeps serve` notes it (`address.json`), which may change.

    After each look in vain, and after each runner that lost its Ray, the pause before the next look doubles.
    """

    def __init__(self, settings: Settings) -> None:
        self.address = settings.ray_address
        """Address at which Ray answered last, or should be."""
        self._settings = settings
        self._pause_s = 0.0
        self._next_look = 0.0
        self._answers = False

    @property
    def answers(self) -> bool:
        """True if Ray answers; looked at anew after a pause."""
        if time.monotonic() >= self._next_look:
            noted = None
            with suppress(OSError, ValueError, AttributeError):  # it is being written, or gone
                noted = json.loads((self._settings.home / "address.json").read_text()).get("ray_address")
            addresses = [address for address in (self._settings.ray_address, noted) if address]
            answering = next((address for address in addresses if _answers(address, self._settings)), None)
            self._answers = answering is not None or not addresses  # without any, a runner says what is missing
            self.address = answering or self._settings.ray_address
            if not self._answers:
                self.begin()
            else:
                self._next_look = time.monotonic() + LOOK_EVERY_S
        return self._answers

    def begin(self) -> None:
        """Note that there is no Ray to work with, though it may seem to answer; the next look comes after a pause."""
        self._answers = False
        self._pause_s = min(LONGEST_PAUSE_S, 2 * self._pause_s or FIRST_PAUSE_S)
        self._next_look = time.monotonic() + self._pause_s

    def forget(self) -> None:
        """Note that a runner has worked with Ray: the next trouble is the first one again."""
        self._pause_s = 0.0


def _answers(address: str, settings: Settings) -> bool:
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        return True  # a runner says what is wrong with it
    try:
        check_port(host, int(port), settings.trusted)
    except (OSError, OverflowError, StrangerListens):
        return False
    return True
