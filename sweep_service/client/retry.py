"""How long to go on asking a server that is away, and how often."""

import random
import time

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 5.0


class Patience:
    """Pauses that grow, with jitter, until a time is over."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds
        self._pause_s = _FIRST_PAUSE_S

    def another_try(self, server_says: str | None = None) -> bool:
        """Wait before the next try; return False, at once, if there is no time for one.

        Args:
            server_says: the value of a Retry-After header.
        """
        pause_s = self._pause_s * random.uniform(0.5, 1)
        if server_says is not None and server_says.isdecimal():
            pause_s = max(pause_s, float(server_says))
        if time.monotonic() + pause_s > self._end:
            return False
        time.sleep(pause_s)
        self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)
        return True
